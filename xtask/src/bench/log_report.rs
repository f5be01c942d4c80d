//! The report of `bench log`, as Markdown and as JSON.

use std::collections::BTreeMap;

use serde_json::json;

use super::{
    figures::{Figures, median_of, median_ratio},
    report::{machine, number},
};

/// Stores that are compared, by the names that the benchmark program knows.
pub(super) const STORES: [&str; 4] = ["log", "raw", "sled", "sqlite"];

/// Numbers of concurrent writers.
const WRITERS: [u32; 3] = [1, 16, 64];

/// Measurements of `bench log`.
#[derive(Debug)]
pub(super) struct LogReport<'a> {
    /// The rounds of each store, by its name.
    pub(super) rounds: &'a BTreeMap<&'a str, Vec<Figures>>,
    /// Figures of the session log that the other stores have no counterpart of.
    pub(super) alone: &'a Figures,
}

impl LogReport<'_> {
    fn of(&self, store: &str) -> &[Figures] {
        self.rounds.get(store).map_or(&[], Vec::as_slice)
    }

    /// Returns the report as Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "# The session log compared with other stores\n\n\
             Written by `cargo xtask bench log`. Each round measures all stores in turn. Figures are medians \
             of {} rounds; ratios are medians of the rounds' ratios. A turn has an input, a prompt of 120 \
             tokens, an output of 100 tokens and a JSON object of 1.6 kB; seven of eight turns continue \
             another. Each store keeps the same keys and values, groups waiting turns into one commit, and \
             acknowledges a turn once it is durable. *raw* appends to a file and calls `fdatasync`. *sled* \
             applies one batch and flushes, which syncs in this program. *SQLite* commits one transaction \
             with a write-ahead log and `synchronous=FULL`. Latency is the time from submitting a turn until \
             it is durable. {}.\n\n",
            self.of("log").len(),
            machine(),
        );
        text += "| writers | | log | raw | sled | SQLite | log / raw | log / sled | log / SQLite |\n\
                 |---|---|---|---|---|---|---|---|---|\n";
        for writers in WRITERS {
            for (name, label) in [
                ("turns_per_s", "turns/s"),
                ("p50_ms", "p50, ms"),
                ("p99_ms", "p99, ms"),
            ] {
                text += &self.row(&format!("x{writers}_{name}"), writers, label);
            }
        }
        text += "\n| session log | 1 writer | 16 | 64 | target |\n|---|---|---|---|---|\n";
        for (name, label, target) in [
            ("turns_per_commit", "turns per commit", ""),
            ("flushes_per_commit", "flushes per commit", "1"),
            (
                "syncs_per_commit",
                "files synced per commit: sled's and the manifest",
                "2",
            ),
        ] {
            let cells = WRITERS
                .map(|writers| number(median_of(self.of("log"), &format!("x{writers}_{name}"))));
            text += &format!("| {label} | {} | {target} |\n", cells.join(" | "));
        }
        text += "\n| session log only | | target |\n|---|---|---|\n";
        for (label, value, target) in self.alone_rows() {
            text += &format!("| {label} | {} | {target} |\n", number(value));
        }
        text
    }

    fn row(&self, name: &str, writers: u32, label: &str) -> String {
        let values = STORES.map(|store| number(median_of(self.of(store), name)));
        let ratio = |store| number(median_ratio(self.of("log"), self.of(store), name));
        let ratios = [ratio("raw"), ratio("sled"), ratio("sqlite")];
        format!(
            "| {writers} | {label} | {} | {} |\n",
            values.join(" | "),
            ratios.join(" | ")
        )
    }

    fn alone_rows(&self) -> Vec<(String, Option<f64>, &'static str)> {
        let figure = |name: &str| self.alone.get(name).copied();
        let mut rows = vec![
            (
                "log / raw, 64 writers, turns/s".to_owned(),
                median_ratio(self.of("log"), self.of("raw"), "x64_turns_per_s"),
                "at least 0.5",
            ),
            (
                "log / SQLite, 64 writers, turns/s".to_owned(),
                median_ratio(self.of("log"), self.of("sqlite"), "x64_turns_per_s"),
                "at least 1.5",
            ),
        ];
        let row = |label: &str, name: &str, target| (label.to_owned(), figure(name), target);
        if let Some(responses) = figure("responses") {
            let written = format!("writing {responses} responses, s");
            rows.extend([
                row(&written, "fill_s", ""),
                row("sled's file after that, MiB", "db_mib", ""),
                row("start-up with that store, s", "ready_s", "under 3"),
                row("memory that start-up takes, MiB", "resident_mib", ""),
                row(
                    "GET of an uncached response, p50, ms",
                    "cold_get_p50_ms",
                    "under 5",
                ),
                row(
                    "GET of an uncached response, slowest of 200, ms",
                    "cold_get_max_ms",
                    "",
                ),
            ]);
        }
        let sizes = self.alone.iter().filter_map(|(name, value)| {
            let deletions: u64 = name.strip_prefix("db_mib_at_")?.parse().ok()?;
            Some((deletions, *value))
        });
        let mut sizes: Vec<_> = sizes.collect();
        sizes.sort_by_key(|(deletions, _)| *deletions);
        rows.extend(sizes.into_iter().map(|(deletions, mib)| {
            let label =
                format!("sled's file after {deletions} responses were created and deleted, MiB");
            (label, Some(mib), "")
        }));
        if figure("db_per_live_byte").is_some() {
            rows.extend([
                row("remaining keys and values, MiB", "live_mib", ""),
                row("bytes on disk per live byte", "db_per_live_byte", ""),
            ]);
        }
        rows
    }

    /// Returns every figure of every round as JSON.
    pub(super) fn json(&self) -> String {
        let report = json!({
            "machine": machine(),
            "rounds": self.rounds,
            "alone": self.alone,
        });
        format!("{report:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_computed_and_sizes_are_in_order_of_deletions() {
        let rate = |rate: f64| vec![Figures::from([("x64_turns_per_s".to_owned(), rate)])];
        let rounds = BTreeMap::from([("log", rate(30.0)), ("raw", rate(60.0))]);
        let alone = Figures::from([
            ("db_mib_at_20000".to_owned(), 9.0),
            ("db_mib_at_5000".to_owned(), 8.0),
        ]);
        let report = LogReport {
            rounds: &rounds,
            alone: &alone,
        };
        let text = report.markdown();
        assert!(
            text.contains("| 64 | turns/s | 30.0 | 60.0 | – | – | 0.50 | – | – |"),
            "{text}"
        );
        assert!(text.contains("| log / raw, 64 writers, turns/s | 0.50 | at least 0.5 |"));
        let at = |what: &str| text.find(what).expect("a row");
        assert!(at("after 5000 responses") < at("after 20000 responses"));
    }
}
