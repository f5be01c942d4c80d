//! The rules of docs/architecture.md that a program can check, over the sources as text.

mod cycles;
mod prose;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Budgets of file length in lines. They only ever go down.
const FILE_LINES_MEDIAN_MAX: usize = 150;
const FILE_LINES_P95_MAX: usize = 450;
const FOLDER_DEPTH_MAX: usize = 5;

struct Source {
    /// Relative to the repository, with `/`.
    path: String,
    text: String,
}

impl Source {
    fn read(path: &Path) -> Self {
        let relative = path.strip_prefix(root()).expect("inside the repository");
        Self {
            path: relative.to_string_lossy().replace('\\', "/"),
            text: fs::read_to_string(path).expect("a readable file"),
        }
    }

    /// The module directly below the crate that this file belongs to.
    fn top_module(&self) -> &str {
        let inside = self.path.trim_start_matches("src/");
        inside.split(['/', '.']).next().unwrap_or(inside)
    }

    /// The lines of code, without comments, numbered from 1.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line.trim_start()))
            .filter(|(_, line)| !line.starts_with("//"))
    }

    /// The code with its line ends taken out, so that a group of imports is in one place.
    fn code_on_one_line(&self) -> String {
        let lines: Vec<&str> = self.code().map(|(_, line)| line).collect();
        lines.join(" ")
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn collect(folder: &Path, extension: &str, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            collect(&path, extension, into);
        } else if path.extension().is_some_and(|found| found == extension) {
            into.push(path);
        }
    }
}

fn sources(folders: &[&str]) -> Vec<Source> {
    let mut paths = Vec::new();
    for folder in folders {
        collect(&root().join(folder), "rs", &mut paths);
    }
    paths.sort();
    paths.iter().map(|path| Source::read(path)).collect()
}

fn assert_none(what: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{what}:\n{}", offences.join("\n"));
}

/// The modules of src/lib.rs, lowest first.
fn layers() -> Vec<String> {
    let text = fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs");
    text.lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .map(str::to_owned)
        .collect()
}

/// The modules named after `crate::` in a line, one level of braces included.
fn crate_imports(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("crate::") {
        let rest = &line[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(entries(group).into_iter().map(first_name)),
            None => found.push(first_name(rest)),
        }
    }
    found
}

/// The entries of a group of imports, up to the brace that closes it.
fn entries(group: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth > 0 => {}
            ',' | '}' => {
                found.push(&group[start..at]);
                start = at + 1;
                if character == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    found
}

fn first_name(text: &str) -> &str {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_alphanumeric() || c == '_'))
        .unwrap_or(text.len());
    &text[..end]
}

#[test]
fn modules_import_only_from_those_above_them_in_lib_rs() {
    let layers = layers();
    let rank = |name: &str| layers.iter().position(|layer| layer == name);
    let mut offences = Vec::new();
    for source in sources(&["src"]) {
        let Some(own) = rank(source.top_module()) else {
            continue;
        };
        let code = source.code_on_one_line();
        for name in crate_imports(&code) {
            if rank(name).is_some_and(|other| other > own) {
                offences.push(format!(
                    "{} imports `{name}`, which lies below it",
                    source.path
                ));
            }
        }
    }
    assert_none("imports against the order of src/lib.rs", &offences);
}

#[test]
fn every_module_of_lib_rs_exists_and_every_file_is_in_one() {
    let layers = layers();
    let mut strays = Vec::new();
    for source in sources(&["src"]) {
        let module = source.top_module();
        if !["lib", "main"].contains(&module) && !layers.iter().any(|layer| layer == module) {
            strays.push(source.path);
        }
    }
    assert_none("files outside the modules of src/lib.rs", &strays);
}

#[test]
fn every_file_says_what_lives_there() {
    let offences: Vec<String> = sources(&["src", "tests", "xtask/src"])
        .into_iter()
        .filter(|source| !source.text.starts_with("//! "))
        .map(|source| source.path)
        .collect();
    assert_none("files that do not open with a `//!` sentence", &offences);
}

#[test]
fn files_stay_short() {
    for folders in [&["src"][..], &["tests"], &["xtask/src"]] {
        let mut lengths: Vec<(usize, String)> = sources(folders)
            .into_iter()
            .map(|source| (source.text.lines().count(), source.path))
            .collect();
        lengths.sort();
        let (median, _) = &lengths[lengths.len() / 2];
        let (p95, longest) = &lengths[(lengths.len() * 95).div_ceil(100) - 1];
        assert!(
            *median <= FILE_LINES_MEDIAN_MAX,
            "{folders:?}: the median is {median} lines"
        );
        assert!(
            *p95 <= FILE_LINES_P95_MAX,
            "{folders:?}: {longest} has {p95} lines"
        );
    }
}

#[test]
fn folders_stay_flat() {
    let offences: Vec<String> = sources(&["src"])
        .into_iter()
        .filter(|source| source.path.matches('/').count() > FOLDER_DEPTH_MAX)
        .map(|source| source.path)
        .collect();
    assert_none("files too deep in folders", &offences);
}

/// Text that only some places may contain, and why.
const RESERVED: &[(&str, &[&str], &str)] = &[
    (
        "StatusCode",
        &["src/http/"],
        "only http names a status code",
    ),
    (
        "mlx_rs",
        &["src/model/exec/mlx/"],
        "arrays never leave the executor",
    ),
    (
        "mlx_sys",
        &["src/model/exec/mlx/"],
        "arrays never leave the executor",
    ),
    (
        "std::arch",
        &["src/model/exec/cpu/kernels/"],
        "intrinsics are in one place",
    ),
    (
        "sled::",
        &["src/session/store/sled", "src/session/mod.rs"],
        "only one place knows the store",
    ),
    (
        "serde_json",
        &["!src/engine/", "!src/sampling/"],
        "the engine knows tokens only",
    ),
    (
        "SystemTime::now",
        &["src/clock.rs"],
        "time comes from the clock",
    ),
    ("static mut", &[], "there are no mutable statics"),
    ("OnceLock", &[], "there are no global stores"),
    ("LazyLock", &[], "there are no global stores"),
    ("thread_local!", &[], "there are no global stores"),
    ("unbounded_channel", &[], "every queue has a bound"),
];

fn allowed(path: &str, places: &[&str]) -> bool {
    match places.first() {
        Some(first) if first.starts_with('!') => {
            !places.iter().any(|place| path.starts_with(&place[1..]))
        }
        _ => places.iter().any(|place| path.starts_with(place)),
    }
}

#[test]
fn reserved_names_stay_where_they_belong() {
    let mut offences = Vec::new();
    for source in sources(&["src"]) {
        for (number, line) in source.code() {
            for (text, places, reason) in RESERVED {
                if line.contains(text) && !allowed(&source.path, places) {
                    offences.push(format!("{}:{number}: `{text}`: {reason}", source.path));
                }
            }
        }
    }
    assert_none("names out of place", &offences);
}

#[test]
fn the_engine_knows_tokens_only() {
    let above = [
        "wire",
        "conversation",
        "tokenizer",
        "template",
        "output_parser",
        "translate",
    ];
    let mut offences = Vec::new();
    for source in sources(&["src/engine", "src/sampling", "src/model/exec"]) {
        let code = source.code_on_one_line();
        for name in crate_imports(&code) {
            if above.contains(&name) {
                offences.push(format!("{} imports `{name}`", source.path));
            }
        }
    }
    assert_none("text reaches the engine", &offences);
}

#[test]
fn file_names_say_something() {
    let vague = ["util", "utils", "common", "helper", "helpers", "misc"];
    let offences: Vec<String> = sources(&["src", "tests", "xtask/src"])
        .into_iter()
        .map(|source| source.path)
        .filter(|path| {
            let stem = |part: &str| part.trim_end_matches(".rs").to_owned();
            path.split('/')
                .any(|part| vague.contains(&stem(part).as_str()))
        })
        .collect();
    assert_none("vague file names", &offences);
}

#[test]
fn no_type_has_both_the_json_and_the_log_form() {
    let folders = ["src/session", "migrations"];
    let there = folders
        .into_iter()
        .filter(|folder| root().join(folder).exists());
    let offences: Vec<String> = sources(&there.collect::<Vec<_>>())
        .into_iter()
        .filter(|source| source.code().any(|(_, line)| line.contains("#[serde(")))
        .map(|source| source.path)
        .collect();
    assert_none("log structs with serde attributes", &offences);
}
