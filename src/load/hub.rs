//! Repositories of the Hugging Face Hub, downloaded into the cache that Python's client uses too.

use std::{
    fs,
    path::{Path, PathBuf},
};

use hf_hub::{
    Cache, Repo, RepoType,
    api::{
        Progress, RepoInfo,
        sync::{Api, ApiBuilder, ApiError},
    },
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::LoadError;

const REVISION: &str = "main";

/// A hub, and the folder for what is downloaded from it.
#[derive(Debug, Clone)]
pub struct Hub {
    /// Base address, without a slash at the end.
    pub endpoint: Option<String>,
    /// Folder of the cache, `hub` inside `HF_HOME`.
    pub cache: PathBuf,
    /// Token for repositories that are not public.
    pub token: Option<String>,
}

/// A request to a hub: `organisation/name`, or `organisation/name/FILE.gguf` for one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    repository: String,
    file: Option<String>,
}

impl Wanted {
    /// Reads a name, or `None` where it has not the form of one.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.split('/').collect();
        let plain = |part: &&str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            !part.is_empty() && !part.starts_with('.') && part.chars().all(allowed)
        };
        if !parts.iter().all(plain) {
            return None;
        }
        match parts[..] {
            [organisation, name] if !is_gguf(name) => Some(Self {
                repository: format!("{organisation}/{name}"),
                file: None,
            }),
            [organisation, name, file] if is_gguf(file) => Some(Self {
                repository: format!("{organisation}/{name}"),
                file: Some(file.to_owned()),
            }),
            _ => None,
        }
    }
}

fn is_gguf(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

impl Hub {
    /// The hub that the usual environment variables name: `HF_ENDPOINT`, `HF_HUB_CACHE` or
    /// `HF_HOME`, `HF_TOKEN`.
    #[must_use]
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        let cache = match (variable("HF_HUB_CACHE"), variable("HF_HOME")) {
            (Some(cache), _) => Cache::new(cache.into()),
            (None, Some(home)) => Cache::new(Path::new(&home).join("hub")),
            (None, None) => Cache::default(),
        };
        Self {
            endpoint: variable("HF_ENDPOINT").map(|url| url.trim_end_matches('/').to_owned()),
            token: variable("HF_TOKEN").or_else(|| cache.token()),
            cache: cache.path().clone(),
        }
    }

    /// Downloads what is missing of a model; the folder or file that can then be opened.
    pub(super) fn fetch(&self, wanted: &Wanted) -> Result<PathBuf, LoadError> {
        let fault = |error| self.fault(wanted, &error);
        let api = self.api().map_err(fault)?;
        match api.repo(wanted.at(REVISION)).info() {
            Ok(listed) => self.download(&api, wanted, listed),
            Err(error) => self.downloaded_before(wanted, &error),
        }
    }

    /// Downloads missing files, all from the commit that was listed, even if the repository changes
    /// meanwhile.
    fn download(&self, api: &Api, wanted: &Wanted, listed: RepoInfo) -> Result<PathBuf, LoadError> {
        let fault = |error| self.fault(wanted, &error);
        let files = listed.siblings.into_iter().map(|file| file.rfilename);
        let files = select(wanted, &files.collect::<Vec<_>>())?;
        let main = self.cache().repo(wanted.at(REVISION));
        let snapshot = main.pointer_path(&listed.sha);
        let pinned = api.repo(wanted.at(&listed.sha));
        for file in files.iter().filter(|file| !snapshot.join(file).exists()) {
            let bar = Bar(bytes_bar(file, 0));
            pinned.download_with_progress(file, bar).map_err(fault)?;
        }
        main.create_ref(&listed.sha)
            .map_err(|error| fault(error.into()))?;
        Ok(wanted.within(&snapshot))
    }

    /// Returns an earlier download if the hub does not list the repository now.
    fn downloaded_before(&self, wanted: &Wanted, error: &ApiError) -> Result<PathBuf, LoadError> {
        let repo = wanted.at(REVISION);
        let reference = self
            .cache
            .join(repo.folder_name())
            .join("refs")
            .join(REVISION);
        let commit = fs::read_to_string(reference).ok();
        let snapshot = commit.map(|commit| self.cache().repo(repo).pointer_path(commit.trim()));
        let path = snapshot
            .map(|snapshot| wanted.within(&snapshot))
            .filter(|path| path.exists());
        let path = path.ok_or_else(|| self.fault(wanted, error))?;
        tracing::warn!(
            repository = wanted.repository,
            %error,
            "hub unavailable: using the earlier download"
        );
        Ok(path)
    }

    fn api(&self) -> Result<Api, ApiError> {
        const RETRIES: usize = 3;
        let builder = ApiBuilder::from_cache(self.cache())
            .with_token(self.token.clone())
            .with_retries(RETRIES);
        match &self.endpoint {
            Some(endpoint) => builder.with_endpoint(endpoint.clone()).build(),
            None => builder.build(),
        }
    }

    fn cache(&self) -> Cache {
        Cache::new(self.cache.clone())
    }

    fn fault(&self, wanted: &Wanted, error: &ApiError) -> LoadError {
        let endpoint = self.endpoint.as_deref().unwrap_or("the Hugging Face Hub");
        LoadError(format!(
            "`{}` cannot be fetched from {endpoint}: {error} (check the name, the network and, if \
             it is not public, the token in HF_TOKEN)",
            wanted.repository
        ))
    }
}

impl Wanted {
    fn at(&self, revision: &str) -> Repo {
        Repo::with_revision(
            self.repository.clone(),
            RepoType::Model,
            revision.to_owned(),
        )
    }

    fn within(&self, snapshot: &Path) -> PathBuf {
        match &self.file {
            Some(file) => snapshot.join(file),
            None => snapshot.to_owned(),
        }
    }
}

/// The files to download, out of all that a repository has.
fn select(wanted: &Wanted, files: &[String]) -> Result<Vec<String>, LoadError> {
    let repository = &wanted.repository;
    let ggufs: Vec<&str> = files
        .iter()
        .map(String::as_str)
        .filter(|file| is_gguf(file))
        .collect();
    if let Some(file) = &wanted.file {
        if files.contains(file) {
            return Ok(vec![file.clone()]);
        }
        let fault = format!(
            "`{repository}` has no {file}; its GGUF files: {}",
            ggufs.join(", ")
        );
        return Err(fault.into());
    }
    let needed: Vec<String> = files
        .iter()
        .filter(|file| is_needed(file))
        .cloned()
        .collect();
    if needed.iter().any(|file| file.ends_with(".safetensors")) {
        return Ok(needed);
    }
    Err(match ggufs.first() {
        None => format!("`{repository}` has neither model*.safetensors nor GGUF files").into(),
        Some(first) => {
            let all = ggufs.join(", ");
            format!("`{repository}` has GGUF files; name one, as in {repository}/{first}: {all}")
                .into()
        }
    })
}

/// True if a file, at the top of its repository, is one that loading a model reads.
fn is_needed(file: &str) -> bool {
    const NAMES: [&str; 7] = [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "chat_template.json",
        "model.safetensors.index.json",
    ];
    let weights = file.starts_with("model") && file.ends_with(".safetensors");
    !file.contains('/') && (weights || NAMES.contains(&file))
}

/// The progress of one file.
struct Bar(ProgressBar);

impl Progress for Bar {
    fn init(&mut self, size: usize, _file: &str) {
        self.0.set_length(size as u64);
        self.0.reset();
    }

    fn update(&mut self, size: usize) {
        self.0.inc(size as u64);
    }

    fn finish(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Returns a progress bar in bytes, on standard error if that is a terminal.
fn bytes_bar(message: &str, total_bytes: u64) -> ProgressBar {
    const STYLE: &str = "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    // The target hides itself where standard error is not a terminal.
    let bar = ProgressBar::with_draw_target(Some(total_bytes), ProgressDrawTarget::stderr());
    bar.set_style(
        ProgressStyle::with_template(STYLE).unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.set_message(message.to_owned());
    bar
}
