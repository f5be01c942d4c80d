//! Where the reports of servers beside each other go, and what all of them say.

use std::path::PathBuf;

use anyhow::Result;

use super::{
    chart::Chart,
    report::number,
    rounds::Rounds,
    servers::{ServerArgs, Servers, Side},
    write_to,
};
use crate::{folder, project::Project};

/// The files of one report.
pub(super) struct Output {
    folder: PathBuf,
    name: &'static str,
    adds: bool,
}

impl Output {
    pub(super) fn new(project: &Project, args: &ServerArgs, name: &'static str) -> Self {
        let usual = || project.root().join("docs/benchmarks");
        Self {
            folder: args.to.clone().unwrap_or_else(usual),
            name,
            adds: args.add,
        }
    }

    /// The rounds to add to.
    pub(super) fn begin(&self, servers: &Servers) -> Result<Rounds> {
        folder::create(&self.folder)?;
        let mut rounds = match self.adds {
            true => Rounds::read(&self.folder.join(self.name).with_extension("json"))?,
            false => Rounds::default(),
        };
        rounds.versions.extend(servers.versions()?);
        Ok(rounds)
    }

    pub(super) fn write(&self, markdown: &str, json: &str) -> Result<()> {
        write_to(&self.folder, self.name, markdown, json)
    }

    pub(super) fn draw(&self, chart: &Chart<'_>) -> Result<()> {
        let path = self.folder.join(self.name).with_extension("svg");
        chart.write(&path)
    }
}

/// A table in Markdown.
pub(super) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        text += &format!("| {} |\n", row.join(" | "));
    }
    text
}

/// What is wanted of a figure, and whether it is so.
pub(super) fn wanted(what: String, value: Option<f64>, wanted: (Bound, f64)) -> Vec<String> {
    let (bound, limit) = wanted;
    let (words, holds) = match bound {
        Bound::AtMost => ("at most", value.map(|value| value <= limit)),
        Bound::AtLeast => ("at least", value.map(|value| value >= limit)),
    };
    let verdict = match holds {
        Some(true) => "yes",
        Some(false) => "no",
        None => "–",
    };
    let figure = match value {
        Some(value) if value < 0.1 => format!("{value:.3}"),
        value => number(value),
    };
    vec![what, figure, format!("{words} {limit}"), verdict.to_owned()]
}

/// The head of a table of what is wanted.
pub(super) const WANTED: [&str; 4] = ["", "", "wanted", "reached"];

/// Which side of a limit is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bound {
    AtMost,
    AtLeast,
}

/// A figure of each side, in their order.
pub(super) fn medians(rounds: &Rounds, name: &str) -> [String; 3] {
    Side::ALL.map(|side| number(rounds.median(side, name)))
}
