//! Safetensors files, single or sharded, mapped into memory.
//!
//! Format: <https://huggingface.co/docs/safetensors>.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    ops::Range,
    path::{Path, PathBuf},
};

use safetensors::tensor::{Dtype, Metadata};
use serde_json::Value;

use super::{LoadError, MappedFile, TensorInfo, TensorType, Tensors, json, tensor_type::decode};
use crate::limits::SAFETENSORS_HEADER_BYTES_MAX;

const INDEX: &str = "model.safetensors.index.json";

/// The tensors of a folder's safetensors files.
pub(super) struct SafeTensors {
    folder: PathBuf,
    files: Vec<MappedFile>,
    tensors: Vec<Tensor>,
    by_name: HashMap<String, usize>,
}

struct Tensor {
    name: String,
    info: TensorInfo,
    file: usize,
    bytes: Range<usize>,
}

impl SafeTensors {
    /// Opens the files that the index names, or `model*.safetensors` where there is no index.
    pub(super) fn open(folder: &Path) -> Result<Self, LoadError> {
        let mut all = Self {
            folder: folder.to_owned(),
            files: Vec::new(),
            tensors: Vec::new(),
            by_name: HashMap::new(),
        };
        let index = Index::read(folder)?;
        let names = match &index {
            Some(index) => index.0.keys().cloned().collect(),
            None => weight_files(folder)?,
        };
        for name in names {
            all.add(&folder.join(&name))?;
        }
        if let Some(index) = &index {
            index.check(&all)?;
        }
        Ok(all)
    }

    fn add(&mut self, path: &Path) -> Result<(), LoadError> {
        let file = MappedFile::open(path)?;
        let tensors = describe(&file).map_err(|fault| fault.in_file(path))?;
        for (name, info, bytes) in tensors {
            let tensor = Tensor {
                name: name.clone(),
                info,
                file: self.files.len(),
                bytes,
            };
            if let Some(other) = self.by_name.insert(name, self.tensors.len()) {
                let other = self.path_of(&self.tensors[other]).display();
                let fault = format!("is in {other} as well");
                return Err(LoadError::tensor(&tensor.name, fault).in_file(path));
            }
            self.tensors.push(tensor);
        }
        self.files.push(file);
        Ok(())
    }

    fn path_of(&self, tensor: &Tensor) -> &Path {
        self.files
            .get(tensor.file)
            .map_or(&self.folder, MappedFile::path)
    }

    fn tensor(&self, name: &str) -> Result<(&Tensor, &[u8]), LoadError> {
        let index = self
            .by_name
            .get(name)
            .ok_or_else(|| LoadError::tensor(name, "is missing").in_file(&self.folder))?;
        let tensor = &self.tensors[*index];
        Ok((tensor, self.files[tensor.file].range(name, &tensor.bytes)?))
    }
}

impl Tensors for SafeTensors {
    fn names(&self) -> Vec<&str> {
        self.tensors
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect()
    }

    fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name
            .get(name)
            .map(|index| &self.tensors[*index].info)
    }

    fn bytes(&self, name: &str) -> Result<Cow<'_, [u8]>, LoadError> {
        Ok(self.tensor(name)?.1.into())
    }

    fn read_f32(&self, name: &str, out: &mut [f32]) -> Result<(), LoadError> {
        let (tensor, bytes) = self.tensor(name)?;
        tensor
            .info
            .check_room(out)
            .map_err(|fault| LoadError::tensor(name, fault).in_file(self.path_of(tensor)))?;
        decode(tensor.info.encoding, bytes, out);
        Ok(())
    }

    fn place(&self, name: &str) -> String {
        let tensor = self.by_name.get(name).map(|index| &self.tensors[*index]);
        let path = tensor.map_or(self.folder.as_path(), |tensor| self.path_of(tensor));
        format!("{}: tensor `{name}`", path.display())
    }
}

/// A tensor's name, description and place in its file.
type Described = (String, TensorInfo, Range<usize>);

/// Reads and checks the header of one file.
fn describe(file: &MappedFile) -> Result<Vec<Described>, LoadError> {
    let (metadata, data) = read_header(file)?;
    let mut tensors = Vec::new();
    for name in metadata.offset_keys() {
        let Some(stored) = metadata.info(&name) else {
            continue;
        };
        let (start, end) = stored.data_offsets;
        let place = data.checked_add(start).zip(data.checked_add(end));
        let Some((start, end)) = place.filter(|(_, end)| *end <= file.len()) else {
            let fault = "reaches past the end of the file, which is cut short or damaged";
            return Err(LoadError::tensor(&name, fault));
        };
        let encoding = encoding(stored.dtype).map_err(|fault| LoadError::tensor(&name, fault))?;
        if let Some(encoding) = encoding {
            let info = TensorInfo {
                shape: stored.shape.clone(),
                encoding,
            };
            tensors.push((name, info, start..end));
        }
    }
    Ok(tensors)
}

/// The header, and where the tensors' bytes begin.
fn read_header(file: &[u8]) -> Result<(Metadata, usize), LoadError> {
    const CUT_SHORT: &str = "is cut short in its header";
    let (length, rest) = file.split_first_chunk().ok_or(CUT_SHORT)?;
    let length = u64::from_le_bytes(*length);
    let header = usize::try_from(length)
        .ok()
        .filter(|length| *length <= SAFETENSORS_HEADER_BYTES_MAX)
        .ok_or_else(|| {
            format!("claims a header of {length} bytes: it is not a safetensors file")
        })?;
    let text = rest.get(..header).ok_or(CUT_SHORT)?;
    let metadata = serde_json::from_slice(text)
        .map_err(|e| format!("has a header that does not describe its tensors: {e}"))?;
    Ok((metadata, size_of::<u64>() + header))
}

/// Returns the tensor type of a safetensors type. `None` for integers and booleans, which buffers
/// such as masks have, and weights do not.
fn encoding(dtype: Dtype) -> Result<Option<TensorType>, String> {
    Ok(match dtype {
        Dtype::F32 => Some(TensorType::F32),
        Dtype::F16 => Some(TensorType::F16),
        Dtype::BF16 => Some(TensorType::Bf16),
        Dtype::U32 => Some(TensorType::U32),
        Dtype::BOOL | Dtype::U8 | Dtype::I8 | Dtype::U16 | Dtype::I16 => None,
        Dtype::I32 | Dtype::U64 | Dtype::I64 => None,
        other => {
            return Err(format!(
                "is stored as {other}; F32, F16, BF16 and U32 can be read"
            ));
        }
    })
}

/// `weight_map` of the index, by file: which tensors lie in each.
struct Index(BTreeMap<String, Vec<String>>);

impl Index {
    fn read(folder: &Path) -> Result<Option<Self>, LoadError> {
        let path = folder.join(INDEX);
        let Some(index) = json::read_object(&path)? else {
            return Ok(None);
        };
        let weight_map = index.get("weight_map").and_then(Value::as_object);
        let weight_map =
            weight_map.ok_or_else(|| LoadError::from("has no `weight_map`").in_file(&path))?;
        let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (tensor, file) in weight_map {
            let file = file
                .as_str()
                .filter(|file| is_plain_name(file))
                .ok_or_else(|| {
                    LoadError::tensor(
                        tensor,
                        format!("is said to lie in {file}, not a file's name"),
                    )
                    .in_file(&path)
                })?;
            files
                .entry(file.to_owned())
                .or_default()
                .push(tensor.clone());
        }
        Ok(Some(Self(files)))
    }

    /// Checks that every tensor of the index lies where it says.
    fn check(&self, all: &SafeTensors) -> Result<(), LoadError> {
        for (file, tensors) in &self.0 {
            let path = all.folder.join(file);
            for name in tensors {
                let lies_there = all
                    .by_name
                    .get(name)
                    .is_some_and(|index| all.path_of(&all.tensors[*index]) == path);
                if !lies_there {
                    let fault = format!("is missing, though {INDEX} says it lies there");
                    return Err(LoadError::tensor(name, fault).in_file(&path));
                }
            }
        }
        Ok(())
    }
}

/// True if a name stays within its folder.
fn is_plain_name(name: &str) -> bool {
    Path::new(name)
        .file_name()
        .is_some_and(|plain| plain == name)
}

/// `model*.safetensors` of a folder, sorted.
fn weight_files(folder: &Path) -> Result<Vec<String>, LoadError> {
    let fault = |e| LoadError(format!("{}: cannot be listed: {e}", folder.display()));
    let mut names = Vec::new();
    for entry in folder.read_dir().map_err(fault)? {
        let name = entry.map_err(fault)?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("model") && name.ends_with(".safetensors") {
            names.push(name.into_owned());
        }
    }
    if names.is_empty() {
        return Err(LoadError::from("holds no model*.safetensors").in_file(folder));
    }
    names.sort();
    Ok(names)
}
