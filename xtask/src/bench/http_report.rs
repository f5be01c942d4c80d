//! The report of the server's benchmark, for people and for programs.

use serde_json::json;

use super::{
    figures::{Figures, median, median_of},
    http::KEPT,
    report::{machine, number},
};

/// How many clients asked at once.
const CLIENTS: [u32; 2] = [1, 64];

/// What was measured.
#[derive(Debug)]
pub(super) struct HttpReport<'a> {
    /// Each has figures of both sides.
    pub(super) rounds: &'a [Figures],
    /// Resident memory after so many requests: of a store that grows, and of a bounded one.
    pub(super) memory: [&'a Figures; 2],
}

impl HttpReport<'_> {
    /// Tables in Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "# The server beside a bare handler\n\n\
             Written by `cargo xtask bench http`; medians of {} rounds, in which all took turns; ratios \
             are medians of the rounds' ratios. A made-up model behind the real engine, whose steps cost \
             next to nothing, and a session log on disk, so that what is measured is everything else. \
             The bare handler is axum's, reads the request and returns the same bytes that the server \
             had returned once. No two prompts are the same. Clients and servers share the processors, in one process. {}.\n\n\
             ## Answers of one token, whole\n\n\
             | clients | | not stored | stored | bare | not stored / bare | stored / bare |\n\
             |---|---|---|---|---|---|---|\n",
            self.rounds.len(),
            machine(),
        );
        for clients in CLIENTS {
            for (name, label) in [
                ("requests_per_s", "requests/s"),
                ("p50_ms", "p50, ms"),
                ("p99_ms", "p99, ms"),
            ] {
                let figure = |side: &str| format!("{side}_x{clients}_{name}");
                let [unstored, stored, bare] = ["unstored", "stored", "bare"].map(figure);
                let cells = [
                    self.median(&unstored),
                    self.median(&stored),
                    self.median(&bare),
                    self.ratio(&unstored, &bare),
                    self.ratio(&stored, &bare),
                ];
                text += &format!(
                    "| {clients} | {label} | {} |\n",
                    cells.map(number).join(" | ")
                );
            }
        }
        text += &self.commits();
        text += &self.streams();
        text += &self.memory();
        text
    }

    fn commits(&self) -> String {
        let [unstored, stored] = ["unstored", "stored"]
            .map(|side| self.median(&format!("{side}_x1_commits_per_request")));
        let more = stored
            .zip(unstored)
            .map(|(stored, unstored)| stored - unstored);
        format!(
            "\n| commits to the log for one request of one client | | wanted |\n|---|---|---|\n\
             | not stored | {} | |\n| stored | {} | |\n| stored, more | {} | at most 1 |\n",
            number(unstored),
            number(stored),
            number(more)
        )
    }

    fn streams(&self) -> String {
        let (ours, written, ready) = (
            "ours_events_per_s",
            "bare_written_events_per_s",
            "bare_ready_events_per_s",
        );
        let rows = [
            ("the server", ours, ""),
            (
                "a bare handler that writes each event by itself, as the server does",
                written,
                "at least 0.5",
            ),
            (
                "a bare handler that has all events at once, and writes many together",
                ready,
                "",
            ),
        ];
        let mut text = "\n## 64 streams of 256 tokens, stored\n\n\
             | | events/s | ours / theirs | wanted |\n|---|---|---|---|\n"
            .to_owned();
        for (label, theirs, wanted) in rows {
            let ratio = self.ratio(ours, theirs).filter(|_| theirs != ours);
            let [rate, ratio] = [self.median(theirs), ratio].map(number);
            text += &format!("| {label} | {rate} | {ratio} | {wanted} |\n");
        }
        text
    }

    fn memory(&self) -> String {
        let [growing, bounded] = self.memory;
        let mut requests: Vec<u64> = growing
            .keys()
            .filter_map(|name| name.strip_prefix("resident_mib_at_")?.parse().ok())
            .collect();
        requests.sort_unstable();
        if requests.is_empty() {
            return String::new();
        }
        let mut text = format!(
            "\n## Memory\n\nOver requests for one token from 64 clients, half of them stored; with 8 MiB \
             for the log's cache and 64 MiB for prompts, which are soon full. A store that keeps everything \
             has more to know of; one that keeps {KEPT} responses, and what was not stored for a second, does \
             not.\n\n| requests | everything kept: resident, MiB | {KEPT} kept: resident, MiB |\n|---|---|---|\n"
        );
        for requests in requests {
            let resident =
                |of: &Figures| number(of.get(&format!("resident_mib_at_{requests}")).copied());
            text += &format!(
                "| {requests} | {} | {} |\n",
                resident(growing),
                resident(bounded)
            );
        }
        text
    }

    fn median(&self, name: &str) -> Option<f64> {
        median_of(self.rounds, name)
    }

    /// The median over the rounds of one figure divided by another.
    fn ratio(&self, ours: &str, theirs: &str) -> Option<f64> {
        let ratio = |round: &Figures| Some(round.get(ours)? / round.get(theirs)?);
        let ratios: Option<Vec<f64>> = self.rounds.iter().map(ratio).collect();
        median(ratios?)
    }

    /// Every figure of every round.
    pub(super) fn json(&self) -> String {
        let report = json!({
            "machine": machine(),
            "rounds": self.rounds,
            "memory": {"everything_kept": self.memory[0], "bounded": self.memory[1]},
        });
        format!("{report:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::figures;

    #[test]
    fn the_report_compares_within_rounds_and_orders_by_number() {
        let rounds = [figures(&[
            ("unstored_x1_commits_per_request", 2.0),
            ("stored_x1_commits_per_request", 2.5),
            ("stored_x1_requests_per_s", 100.0),
            ("bare_x1_requests_per_s", 400.0),
            ("ours_events_per_s", 60_000.0),
            ("bare_written_events_per_s", 100_000.0),
        ])];
        let memory = figures(&[
            ("resident_mib_at_100000", 9.0),
            ("resident_mib_at_20000", 8.0),
        ]);
        let text = HttpReport {
            rounds: &rounds,
            memory: [&memory, &Figures::new()],
        }
        .markdown();
        for line in [
            "| 1 | requests/s | – | 100 | 400 | – | 0.25 |",
            "| stored, more | 0.50 | at most 1 |",
            "| the server | 60000 | – |  |",
            "| a bare handler that writes each event by itself, as the server does | 100000 | 0.60 | at least 0.5 |",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        let at = |what: &str| text.find(what).expect("a row");
        assert!(at("\n| 20000 |") < at("\n| 100000 |"));
    }
}
