//! The measurement of several servers in rounds, and the files of its report.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::{
    chart::Chart,
    figures::Figures,
    report::{number, write_to},
    rounds::{Round, Rounds},
    servers::{ServerArgs, Servers, Side},
};
use crate::{folder, process::say, project::Project};

/// Functions that turn rounds into Markdown and into a chart.
pub(super) type Views = (fn(&Rounds) -> String, fn(&Rounds) -> Chart<'static>);

/// The files of one report: `NAME.md`, `NAME.json` and `NAME.svg`.
pub(super) struct Output {
    folder: PathBuf,
    name: &'static str,
    /// True if the run adds rounds to the last report.
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

    /// Returns the rounds to add to: those of the last report, or none.
    pub(super) fn begin(&self, servers: &Servers) -> Result<Rounds> {
        folder::create(&self.folder)?;
        let mut rounds = match self.adds {
            true => Rounds::read(&self.folder.join(format!("{}.json", self.name)))?,
            false => Rounds::default(),
        };
        rounds.versions.extend(servers.versions()?);
        Ok(rounds)
    }

    /// Measures the servers in turn. Writes the report after each, so that an interrupted run keeps its
    /// results.
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

/// Returns the median of a figure for each server, in the order of [`Side::ALL`].
pub(super) fn medians(rounds: &Rounds, name: &str) -> [String; 3] {
    Side::ALL.map(|side| number(rounds.median(side, name)))
}
