//! Measurements of several servers in rounds, stored as JSON. A run can add rounds to a stored file.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    chart::Line,
    figures::{Figures, median},
    report::machine,
    servers::Side,
};

/// Measurements of one round, by the server's name. A round may lack a server or a figure.
pub(super) type Round = BTreeMap<String, Figures>;

/// All rounds.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    pub(super) all: Vec<Round>,
    /// Version of each server, by the server's name.
    pub(super) versions: BTreeMap<String, String>,
}

impl Rounds {
    /// Reads the rounds of an earlier report.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read {}, to add to it", path.display()))?;
        let mut stored: Value = serde_json::from_str(&text)?;
        Ok(Self {
            all: serde_json::from_value(stored["rounds"].take())?,
            versions: serde_json::from_value(stored["versions"].take())?,
        })
    }

    /// Returns every figure of every round as JSON.
    pub(super) fn json(&self) -> String {
        let report = json!({
            "machine": machine(),
            "versions": self.versions,
            "rounds": self.all,
        });
        format!("{report:#}\n")
    }

    /// Returns a sentence with the machine and the versions, for the head of a report.
    pub(super) fn setting(&self) -> String {
        let named = |(side, version): (&String, &String)| format!("{side} {version}");
        let versions: Vec<_> = self.versions.iter().map(named).collect();
        format!("{}. Versions: {}.", machine(), versions.join(", "))
    }

    /// Returns a figure of a server in each round.
    fn of<'a>(&'a self, side: Side, name: &'a str) -> impl Iterator<Item = Option<f64>> + 'a {
        let rounds = self.all.iter();
        rounds.map(move |round| round.get(side.name())?.get(name).copied())
    }

    /// Returns the median of a figure over the rounds that have it.
    pub(super) fn median(&self, side: Side, name: &str) -> Option<f64> {
        median(self.of(side, name).flatten().collect())
    }

    /// Returns the median of the ratio `one / other` over the rounds that have both figures.
    pub(super) fn ratio(&self, one: (Side, &str), other: (Side, &str)) -> Option<f64> {
        let pairs = self.of(one.0, one.1).zip(self.of(other.0, other.1));
        median(
            pairs
                .filter_map(|(one, other)| Some(one? / other?))
                .collect(),
        )
    }

    /// Returns chart lines of medians, each for a label, a server and a pattern of figure names. The
    /// number that `{}` stands for in a name is the x coordinate. Leaves out lines without points.
    pub(super) fn lines<'a>(
        &self,
        lines: impl IntoIterator<Item = (&'a str, Side, &'a str)>,
    ) -> Vec<Line> {
        let line = |(label, side, pattern): (&str, Side, &str)| {
            let point = |number: u64| {
                let name = pattern.replace("{}", &number.to_string());
                Some((number as f64, self.median(side, &name)?))
            };
            let numbers = self.numbers_in(pattern).into_iter();
            Line {
                label: label.to_owned(),
                points: numbers.filter_map(point).collect(),
            }
        };
        let lines = lines.into_iter().map(line);
        lines.filter(|line| !line.points.is_empty()).collect()
    }

    /// Returns the numbers that `{}` stands for in the names of figures, in ascending order.
    pub(super) fn numbers_in(&self, pattern: &str) -> Vec<u64> {
        let Some((before, after)) = pattern.split_once("{}") else {
            return Vec::new();
        };
        let figures = self.all.iter().flat_map(BTreeMap::values);
        let names = figures.flat_map(BTreeMap::keys);
        let inner = |name: &String| {
            let rest = name.strip_prefix(before)?;
            rest.strip_suffix(after)?.parse().ok()
        };
        let mut numbers: Vec<u64> = names.filter_map(inner).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(figures: &[(Side, &str, f64)]) -> Round {
        let mut round = Round::new();
        for (side, name, value) in figures {
            let side = round.entry(side.name().to_owned()).or_default();
            side.insert((*name).to_owned(), *value);
        }
        round
    }

    #[test]
    fn ratios_use_only_rounds_with_both_figures() {
        use Side::{LlamaCpp, Stemma};
        let rounds = Rounds {
            all: vec![
                round(&[
                    (Stemma, "warm_500_ms", 10.0),
                    (LlamaCpp, "warm_500_ms", 20.0),
                ]),
                round(&[(Stemma, "warm_500_ms", 30.0)]),
                round(&[(LlamaCpp, "warm_4000_ms", 9.0)]),
            ],
            ..Rounds::default()
        };
        let warm = "warm_500_ms";
        assert_eq!(rounds.median(Stemma, warm), Some(20.0));
        assert_eq!(rounds.ratio((Stemma, warm), (LlamaCpp, warm)), Some(0.5));
        assert_eq!(rounds.ratio((Stemma, warm), (Stemma, "cold")), None);
        assert_eq!(rounds.numbers_in("warm_{}_ms"), [500, 4000]);
    }
}
