//! The name of a model → where its files lie on this machine.

use std::path::{Path, PathBuf};

use super::{
    LoadError,
    alias::{self, ALIASES},
    hub::{Hub, Wanted},
};

/// Places to search for models, and the download directory.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The cache folder of aliases.
    pub cache: PathBuf,
    /// Source of repositories.
    pub hub: Hub,
}

impl Sources {
    /// The sources that environment variables name: `STEMMA_DOWNLOAD_DIR` (else `XDG_CACHE_HOME/stemma`,
    /// else `~/.cache/stemma`) and those of the hub.
    #[must_use]
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let cache = match (
            variable("STEMMA_DOWNLOAD_DIR"),
            variable("XDG_CACHE_HOME"),
            variable("HOME"),
        ) {
            (Some(cache), _, _) => cache.into(),
            (None, Some(caches), _) => Path::new(&caches).join("stemma"),
            (None, None, home) => Path::new(&home.unwrap_or_default()).join(".cache/stemma"),
        };
        Self {
            cache,
            hub: Hub::from_environment(variable),
        }
    }
}

/// Finds a model by name: an alias, a folder or GGUF file on this machine, or a repository of the
/// hub (`organisation/name`, or `organisation/name/FILE.gguf`), downloading what is not here yet.
///
/// # Errors
/// Says what the name could have been, or why the download failed.
pub fn resolve(name: &str, sources: &Sources) -> Result<PathBuf, LoadError> {
    if let Some(alias) = alias::find(name) {
        return alias::fetch(alias, &sources.cache);
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

fn unknown(name: &str) -> LoadError {
    let aliases: Vec<&str> = ALIASES.iter().map(|alias| alias.name).collect();
    let aliases = aliases.join(", ");
    LoadError(format!(
        "`{name}` is not a model: no such file or folder, not one of the aliases ({aliases}), and \
         not a repository like organisation/name"
    ))
}
