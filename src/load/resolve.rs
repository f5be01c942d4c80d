//! Resolves the name of a model to its files on this machine.

use std::path::{Path, PathBuf};

use super::{
    LoadError,
    alias::{self, ALIASES},
    hub::{Hub, Wanted},
};

/// Places to search for models, and the download directory.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The folder of the aliases' files.
    pub downloads: PathBuf,
    /// Source of repositories.
    pub hub: Hub,
}

impl Sources {
    /// Returns the sources that environment variables name.
    #[must_use]
    pub fn from_environment(variable: impl Fn(&str) -> Option<String> + Copy) -> Self {
        Self {
            downloads: alias::download_dir(variable),
            hub: Hub::from_environment(variable),
        }
    }
}

/// Finds a model by name: a downloaded alias, a folder or GGUF file on this machine, or a repository of
/// the hub (`organisation/name`, or `organisation/name/FILE.gguf`), which is downloaded if missing.
///
/// # Errors
/// Lists the possible kinds of names, or says why the download failed.
pub fn resolve(name: &str, sources: &Sources) -> Result<PathBuf, LoadError> {
    if let Some(alias) = alias::find(name) {
        return alias::cached(alias, &sources.downloads).ok_or_else(|| missing(name, sources));
    }
    let path = Path::new(name);
    if path.exists() {
        return Ok(path.to_owned());
    }
    match Wanted::parse(name) {
        Some(wanted) => sources.hub.fetch(&wanted),
        None => Err(unknown(name)),
    }
}

fn missing(alias: &str, sources: &Sources) -> LoadError {
    let folder = sources.downloads.display();
    LoadError(format!(
        "model `{alias}` is not in {folder}: run `cargo xtask models fetch {alias}`, or name a \
         repository, a folder or a .gguf file"
    ))
}

fn unknown(name: &str) -> LoadError {
    let aliases: Vec<&str> = ALIASES.iter().map(|alias| alias.name).collect();
    let aliases = aliases.join(", ");
    LoadError(format!(
        "`{name}` is not a model: no such file or folder, not one of the aliases ({aliases}), and \
         not a repository like organisation/name"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_that_is_cut_or_missing_is_refused_with_the_command_to_fetch_it() {
        let folder = tempfile::tempdir().unwrap();
        let sources = Sources {
            downloads: folder.path().to_owned(),
            ..Sources::from_environment(|_| None)
        };
        let alias = &ALIASES[0];
        let refused = || resolve(alias.name, &sources).unwrap_err().to_string();
        assert!(refused().contains("cargo xtask models fetch smollm2"));
        std::fs::write(folder.path().join(alias.file_name), "cut").unwrap();
        assert!(refused().contains("cargo xtask models fetch smollm2"));
    }
}
