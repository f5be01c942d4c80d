//! GGUF files: one file with metadata, vocabulary and (mostly quantised) tensors.

mod architecture;
mod blocks;
mod config;
mod cursor;
mod header;
mod metadata;
mod rope;
mod source;
mod tensors;
mod vocabulary;

use std::path::Path;

use self::{
    architecture::Architecture, header::Header, metadata::Metadata, source::Source,
    tensors::GgufTensors,
};
use super::{LoadError, MappedFile, ModelFiles};
use crate::tokenizer::TokenizerSource;

pub(super) use blocks::decode_blocks;
pub use blocks::{BlockFormat, BlockPart, PART};

/// Opens a GGUF file: reads its header, and checks that every tensor is within the file.
pub(super) fn open(path: &Path) -> Result<ModelFiles, LoadError> {
    let file = MappedFile::open(path)?;
    read(file).map_err(|fault| fault.in_file(path))
}

fn read(file: MappedFile) -> Result<ModelFiles, LoadError> {
    let Header { metadata, tensors } = Header::read(&file)?;
    refuse_other_kinds(&metadata)?;
    let architecture = Architecture::of(&metadata)?;
    let source = Source {
        architecture,
        metadata: &metadata,
        tensors: &tensors,
        file: &file,
    };
    let config = source.config()?;
    let head_dim = source.head_dim()?;
    let vocabulary = vocabulary::read(&metadata, source.vocabulary_size()?)?;
    Ok(ModelFiles {
        path: file.path().to_owned(),
        config,
        generation_config: config::generation_config(&metadata)?,
        tokenizer: TokenizerSource::Gguf(vocabulary),
        chat_template: chat_template(&metadata)?,
        tensors: Box::new(GgufTensors::new(file, tensors, architecture, head_dim)?),
    })
}

/// Refuses files that are not one whole model.
fn refuse_other_kinds(metadata: &Metadata) -> Result<(), LoadError> {
    if let Some(kind) = metadata
        .text("general.type")?
        .filter(|kind| kind != "model")
    {
        return Err(format!("holds a `{kind}`, not a model").into());
    }
    match metadata.integer::<u32>("split.count")? {
        Some(parts) if parts > 1 => Err(format!(
            "is one of {parts} parts; join them first (`llama-gguf-split --merge`)"
        )
        .into()),
        _ => Ok(()),
    }
}

fn chat_template(metadata: &Metadata) -> Result<Option<String>, LoadError> {
    match metadata.text("tokenizer.chat_template")? {
        Some(template) => Ok(Some(template)),
        None => metadata.text("tokenizer.chat_template.default"),
    }
}
