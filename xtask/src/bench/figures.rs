//! Measurements of several rounds: numbers by name, with the unit in the name.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

/// What one process measured in one round.
pub(super) type Figures = BTreeMap<String, f64>;

/// Reads the last line that a process wrote: a flat JSON object of numbers.
pub(super) fn parse(output: &str) -> Result<Figures> {
    let line = output.trim().lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| format!("no measurements in {line:?}"))
}

/// The median of a figure over the rounds, where every round has it.
pub(super) fn median_of(rounds: &[Figures], name: &str) -> Option<f64> {
    let values: Option<Vec<f64>> = rounds
        .iter()
        .map(|round| round.get(name).copied())
        .collect();
    median(values?)
}

/// The median over the rounds of how many times theirs ours is, so that what slows a whole round
/// down cancels out.
pub(super) fn median_ratio(ours: &[Figures], theirs: &[Figures], name: &str) -> Option<f64> {
    let ratios: Option<Vec<f64>> = ours
        .iter()
        .zip(theirs)
        .map(|(ours, theirs)| Some(ours.get(name)? / theirs.get(name)?))
        .collect();
    median(ratios?)
}

/// The median; none of nothing.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    match values.len() % 2 {
        0 => Some(f64::midpoint(values[values.len() / 2 - 1], upper)),
        _ => Some(upper),
    }
}

/// Figures for the tests of reports.
#[cfg(test)]
pub(super) fn figures(pairs: &[(&str, f64)]) -> Figures {
    let owned = pairs.iter().map(|&(name, value)| (name.to_owned(), value));
    owned.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(values: &[f64]) -> Vec<Figures> {
        let round = |&value| Figures::from([("rate".to_owned(), value)]);
        values.iter().map(round).collect()
    }

    #[test]
    fn medians_of_odd_and_even_numbers_of_rounds() {
        assert_eq!(median_of(&rounds(&[9.0, 1.0, 5.0]), "rate"), Some(5.0));
        assert_eq!(median_of(&rounds(&[9.0, 1.0, 5.0, 3.0]), "rate"), Some(4.0));
        assert_eq!(median_of(&rounds(&[9.0]), "time"), None);
        assert_eq!(median_of(&[], "rate"), None);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let (ours, theirs) = (rounds(&[2.0, 20.0, 3.0]), rounds(&[1.0, 10.0, 2.0]));
        assert_eq!(median_ratio(&ours, &theirs, "rate"), Some(2.0));
    }

    #[test]
    fn measurements_are_the_last_line() {
        let figures = parse("a warning\n{\"rate\": 2, \"time\": 0.5}\n").expect("is JSON");
        assert_eq!(figures["rate"], 2.0);
        assert!(parse("").is_err());
    }
}
