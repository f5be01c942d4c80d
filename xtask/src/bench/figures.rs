//! Measurements of several rounds: numbers by name, and their medians. A name ends with its unit.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

/// Measurements of one process in one round, by name.
pub(super) type Figures = BTreeMap<String, f64>;

/// Parses the last line of a process's output: a flat JSON object of numbers.
pub(super) fn parse(output: &str) -> Result<Figures> {
    let line = output.trim().lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| format!("no measurements in {line:?}"))
}

/// Returns the median of a figure over the rounds; `None` if a round lacks the figure.
pub(super) fn median_of(rounds: &[Figures], name: &str) -> Option<f64> {
    let values: Option<Vec<f64>> = rounds
        .iter()
        .map(|round| round.get(name).copied())
        .collect();
    median(values?)
}

/// Returns the median of the rounds' ratios `ours / theirs` of a figure. A disturbance that slows a
/// whole round cancels out.
pub(super) fn median_ratio(ours: &[Figures], theirs: &[Figures], name: &str) -> Option<f64> {
    let ratios: Option<Vec<f64>> = ours
        .iter()
        .zip(theirs)
        .map(|(ours, theirs)| Some(ours.get(name)? / theirs.get(name)?))
        .collect();
    median(ratios?)
}

/// Returns the median; `None` if there are no values.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    match values.len() % 2 {
        0 => Some(f64::midpoint(values[values.len() / 2 - 1], upper)),
        _ => Some(upper),
    }
}

/// Returns figures for the tests of reports.
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
    fn ratios_are_computed_within_each_round() {
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
