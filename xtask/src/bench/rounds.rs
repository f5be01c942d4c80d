//! Rounds in which several servers took turns, kept as JSON so that a run can add to those before it.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    chart::Line,
    figures::{Figures, median},
    report::machine,
    servers::Side,
};

/// What each side measured in one round, by its name; a round may lack a side or a figure.
pub(super) type Round = BTreeMap<String, Figures>;

/// All rounds.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    pub(super) all: Vec<Round>,
    /// Version of each side, by its name.
    pub(super) versions: BTreeMap<String, String>,
}

impl Rounds {
    /// The rounds of a file written before.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read {}, to add to it", path.display()))?;
        let mut kept: Value = serde_json::from_str(&text)?;
        Ok(Self {
            all: serde_json::from_value(kept["rounds"].take())?,
            versions: serde_json::from_value(kept["versions"].take())?,
        })
    }

    /// Every figure of every round.
    pub(super) fn json(&self) -> String {
        let report = json!({
            "machine": machine(),
            "versions": self.versions,
            "rounds": self.all,
        });
        format!("{report:#}\n")
    }

    /// One line for the head of a report: machine and versions.
    pub(super) fn setting(&self) -> String {
        let named = |(side, version): (&String, &String)| format!("{side} {version}");
        let versions: Vec<_> = self.versions.iter().map(named).collect();
        format!("{}. Versions: {}.", machine(), versions.join(", "))
    }

    /// The figures of a side, round by round.
    fn of<'a>(&'a self, side: Side, name: &'a str) -> impl Iterator<Item = Option<f64>> + 'a {
        let rounds = self.all.iter();
        rounds.map(move |round| round.get(side.name())?.get(name).copied())
    }

    /// The median of a figure over the rounds that have it.
    pub(super) fn median(&self, side: Side, name: &str) -> Option<f64> {
        median(self.of(side, name).flatten().collect())
    }

    /// The median of how many times another figure this one is, over the rounds that have both.
    pub(super) fn ratio(&self, one: (Side, &str), other: (Side, &str)) -> Option<f64> {
        let pairs = self.of(one.0, one.1).zip(self.of(other.0, other.1));
        median(
            pairs
                .filter_map(|(one, other)| Some(one? / other?))
                .collect(),
        )
    }

    /// Lines of the medians of figures, by the numbers in the place of `{}` in their names; without those
    /// that nobody measured.
    pub(super) fn lines<'a>(
        &self,
        wanted: impl IntoIterator<Item = (&'a str, Side, &'a str)>,
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
        let lines = wanted.into_iter().map(line);
        lines.filter(|line| !line.points.is_empty()).collect()
    }

    /// Which numbers stand in the place of `{}` in the names of figures, smallest first.
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
    fn figures_are_compared_within_rounds_that_have_both() {
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
