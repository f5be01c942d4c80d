//! The report of `bench http`, as Markdown and as JSON.

use serde_json::json;

use super::{
    figures::{Figures, median, median_of},
    report::{machine, number},
};

/// Numbers of concurrent clients.
const CLIENTS: [u32; 2] = [1, 64];

/// Stored responses that the bounded store keeps.
pub(super) const STORED_MAX: u64 = 1000;

/// Measurements of `bench http`.
#[derive(Debug)]
pub(super) struct HttpReport<'a> {
    /// Figures of both servers, one entry per round.
    pub(super) rounds: &'a [Figures],
    /// Resident memory by the number of requests: with an unbounded store, and with a bounded one.
    pub(super) memory: [&'a Figures; 2],
}

impl HttpReport<'_> {
    /// Returns the report as Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "# The HTTP server compared with a static server\n\n\
             Written by `cargo xtask bench http`. Each round measures both servers in turn. Figures are \
             medians of {} rounds; ratios are medians of the rounds' ratios. stemma runs a scripted model \
             behind the real engine, whose steps cost next to nothing, and a session log on disk. So the \
             benchmark measures everything but the model. The static server is an axum handler that reads \
             the request and returns the bytes that stemma had returned once. No two prompts are the same. \
             Clients and servers share the CPU, in one process. {}.\n\n\
             ## Responses of one token, not streamed\n\n\
             | clients | | not stored | stored | static | not stored / static | stored / static |\n\
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
                let [unstored, stored, fixed] = ["unstored", "stored", "bare"].map(figure);
                let cells = [
                    self.median(&unstored),
                    self.median(&stored),
                    self.median(&fixed),
                    self.ratio(&unstored, &fixed),
                    self.ratio(&stored, &fixed),
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
        let additional = stored
            .zip(unstored)
            .map(|(stored, unstored)| stored - unstored);
        format!(
            "\n| commits to the session log per request, one client | | target |\n|---|---|---|\n\
             | not stored | {} | |\n| stored | {} | |\n| stored, in addition | {} | at most 1 |\n",
            number(unstored),
            number(stored),
            number(additional)
        )
    }

    fn streams(&self) -> String {
        let (ours, written, ready) = (
            "ours_events_per_s",
            "bare_written_events_per_s",
            "bare_ready_events_per_s",
        );
        let rows = [
            ("stemma", ours, ""),
            (
                "static server that writes each event separately, as stemma does",
                written,
                "at least 0.5",
            ),
            (
                "static server that has all events in advance, and batches writes",
                ready,
                "",
            ),
        ];
        let mut text = "\n## 64 streams of 256 tokens, stored\n\n\
             | | events/s | stemma / this | target |\n|---|---|---|---|\n"
            .to_owned();
        for (label, theirs, target) in rows {
            let ratio = self.ratio(ours, theirs).filter(|_| theirs != ours);
            let [rate, ratio] = [self.median(theirs), ratio].map(number);
            text += &format!("| {label} | {rate} | {ratio} | {target} |\n");
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
            "\n## Memory\n\nRequests for one token from 64 clients, half of them stored. The log's cache has \
             8 MiB and the prefix cache 64 MiB, so that both are soon full. The unbounded store keeps \
             everything, so its index grows. The bounded store keeps {STORED_MAX} responses, and unstored \
             ones for a second.\n\n| requests | unbounded: resident, MiB | bounded: resident, MiB |\n|---|---|---|\n"
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

    /// Returns the median of the rounds' ratios `ours / theirs` of two figures.
    fn ratio(&self, ours: &str, theirs: &str) -> Option<f64> {
        let ratio = |round: &Figures| Some(round.get(ours)? / round.get(theirs)?);
        let ratios: Option<Vec<f64>> = self.rounds.iter().map(ratio).collect();
        median(ratios?)
    }

    /// Returns every figure of every round as JSON.
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
    fn ratios_are_within_rounds_and_memory_is_in_order_of_requests() {
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
            "| stored, in addition | 0.50 | at most 1 |",
            "| stemma | 60000 | – |  |",
            "| static server that writes each event separately, as stemma does | 100000 | 0.60 | at least 0.5 |",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        let at = |what: &str| text.find(what).expect("a row");
        assert!(at("\n| 20000 |") < at("\n| 100000 |"));
    }
}
