//! Parts that all reports share: numbers, tables, targets, the machine, and writing the files.

use std::{fs, path::Path, thread};

use anyhow::{Context as _, Result};

use crate::{folder, process::say, project::Project};

/// Writes `NAME.md` and `NAME.json` into `docs/benchmarks/` and prints the Markdown.
pub(super) fn write(project: &Project, name: &str, markdown: &str, json: &str) -> Result<()> {
    let to = project.root().join("docs/benchmarks");
    folder::create(&to)?;
    write_to(&to, name, markdown, json)?;
    say(markdown);
    Ok(())
}

/// Writes `NAME.md` and `NAME.json` into `folder`.
pub(super) fn write_to(folder: &Path, name: &str, markdown: &str, json: &str) -> Result<()> {
    for (extension, text) in [("md", markdown), ("json", json)] {
        let path = folder.join(format!("{name}.{extension}"));
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Names the processor, as Linux does, and the number of its cores.
pub(super) fn machine() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let name = fs::read_to_string("/proc/cpuinfo").ok().and_then(|info| {
        let line = info.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(": ")?.1.to_owned())
    });
    let name = name.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    format!("Machine: {name}, {cores} cores")
}

/// Formats a figure with three significant digits, or as a dash if it was not measured.
pub(super) fn number(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value.abs() < 10.0 => format!("{value:.2}"),
        Some(value) if value.abs() < 100.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

/// Formats a Markdown table.
pub(super) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        text += &format!("| {} |\n", row.join(" | "));
    }
    text
}

/// The head of a table of targets.
pub(super) const TARGETS: [&str; 4] = ["", "", "target", "reached"];

/// The kind of a target.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bound {
    AtMost,
    AtLeast,
}

/// Formats a row of [`TARGETS`]: the figure's label and value, its target, and "yes" or "no".
pub(super) fn target(label: String, value: Option<f64>, target: (Bound, f64)) -> Vec<String> {
    let (bound, limit) = target;
    let (words, reached) = match bound {
        Bound::AtMost => ("at most", value.map(|value| value <= limit)),
        Bound::AtLeast => ("at least", value.map(|value| value >= limit)),
    };
    let verdict = match reached {
        Some(true) => "yes",
        Some(false) => "no",
        None => "–",
    };
    let figure = match value {
        Some(value) if value < 0.1 => format!("{value:.3}"),
        value => number(value),
    };
    vec![
        label,
        figure,
        format!("{words} {limit}"),
        verdict.to_owned(),
    ]
}
