//! Where the reports of servers beside each other go, and what all of them say.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::{
    chart::Chart,
    figures::Figures,
    report::number,
    rounds::{Round, Rounds},
    servers::{ServerArgs, Servers, Side},
    write_to,
};
use crate::{folder, process::say, project::Project};

/// What is made of rounds.
pub(super) type Views = (fn(&Rounds) -> String, fn(&Rounds) -> Chart<'static>);

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
            true => Rounds::read(&self.folder.join(format!("{}.json", self.name)))?,
            false => Rounds::default(),
        };
        rounds.versions.extend(servers.versions()?);
        Ok(rounds)
    }

    /// Lets the sides take turns. What there is is written after each, so that a long run that is broken
    /// off was not for nothing.
    pub(super) fn measure(
        &self,
        servers: &Servers,
        args: &ServerArgs,
        (markdown, chart): Views,
        measure: impl Fn(Side, usize, &mut Figures) -> Result<()>,
    ) -> Result<()> {
        let mut rounds = self.begin(servers)?;
        for _ in 0..args.rounds {
            rounds.all.push(Round::new());
            let number = rounds.all.len();
            for &side in &args.sides {
                say(&format!("round {number}: {}", side.name()));
                let mut figures = Figures::new();
                let measured = measure(side, number, &mut figures);
                if let Some(round) = rounds.all.last_mut() {
                    round.insert(side.name().to_owned(), figures);
                }
                self.write(&markdown(&rounds), &rounds.json())?;
                self.draw(&chart(&rounds))?;
                measured.context(side.name())?;
            }
        }
        say(&markdown(&rounds));
        Ok(())
    }

    pub(super) fn write(&self, markdown: &str, json: &str) -> Result<()> {
        write_to(&self.folder, self.name, markdown, json)
    }

    pub(super) fn draw(&self, chart: &Chart<'_>) -> Result<()> {
        let path = self.folder.join(format!("{}.svg", self.name));
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
