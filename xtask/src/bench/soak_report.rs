//! The report of `bench soak`, as Markdown and as JSON.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::json;

use super::{
    chart::{Chart, Line},
    report::{number, table},
};

/// The server's process and its session log at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) minute: f64,
    pub(super) resident_mib: f64,
    /// Open file descriptors, connections included.
    pub(super) files: f64,
    /// Size of the session log's folder.
    pub(super) disk_mib: f64,
}

/// Requests by outcome.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) turns: AtomicU64,
    pub(super) cancelled: AtomicU64,
    pub(super) deleted: AtomicU64,
    /// Requests that a restart interrupted.
    pub(super) killed: AtomicU64,
    pub(super) errors: AtomicU64,
}

/// Measurements of `bench soak`.
#[derive(Debug)]
pub(super) struct SoakReport<'a> {
    pub(super) setting: String,
    pub(super) samples: &'a [Sample],
    pub(super) restarts: u64,
    pub(super) counts: &'a Counts,
    /// Stored responses that the server kept at most.
    pub(super) stored_max: u64,
}

/// A figure of samples: its label and its value.
type SampleFigure = (&'static str, fn(&Sample) -> f64);

const FIGURES: [SampleFigure; 3] = [
    ("resident memory, MiB", |sample| sample.resident_mib),
    ("open files", |sample| sample.files),
    ("disk, MiB", |sample| sample.disk_mib),
];

/// Limit of the ratio of the last third's largest value to the middle third's, for a plateau.
const PLATEAU: f64 = 1.1;

impl SoakReport<'_> {
    /// Returns the report as Markdown.
    pub(super) fn markdown(&self) -> String {
        let minutes = self.samples.last().map_or(0.0, |sample| sample.minute);
        let rows = FIGURES.iter().map(|&(label, of)| {
            let [first, middle, last] = self.thirds(of);
            let plateau = match middle.zip(last) {
                Some((middle, last)) if last <= middle * PLATEAU => "yes",
                Some(_) => "no",
                None => "–",
            };
            let cells = [first, middle, last].map(number);
            let mut row = vec![label.to_owned()];
            row.extend(cells);
            row.push(plateau.to_owned());
            row
        });
        let head = [
            "largest value of",
            "first third",
            "middle third",
            "last third",
            "plateau",
        ];
        let figures = table(&head, rows);
        let counts = self
            .counted()
            .map(|(label, count)| vec![label.to_owned(), count.to_string()]);
        format!(
            "# Soak test with disconnects, deletions and `kill -9`\n\n\
             Written by `cargo xtask bench soak`: {minutes:.0} minutes of clients that run conversations, \
             disconnect from some responses and delete some conversations. Meanwhile the server is killed with \
             `kill -9` and started again. It keeps {} stored responses and 256 MiB of KV cache, so growth \
             beyond that would be a leak. {} At a plateau, the last third exceeds the middle third by a tenth \
             at most.\n\n{figures}\n{}\n![Memory, files and disk](soak.svg)\n",
            self.stored_max,
            self.setting,
            table(&["", ""], counts),
        )
    }

    /// Returns the largest value in each third of the time.
    fn thirds(&self, of: fn(&Sample) -> f64) -> [Option<f64>; 3] {
        let len = self.samples.len();
        [0, 1, 2].map(|third| {
            let samples = &self.samples[len * third / 3..len * (third + 1) / 3];
            samples.iter().map(of).reduce(f64::max)
        })
    }

    fn counted(&self) -> [(&'static str, u64); 6] {
        let counts = self.counts;
        [
            ("restarts by `kill -9`", self.restarts),
            ("turns answered", counts.turns.load(Relaxed)),
            ("answers hung up on", counts.cancelled.load(Relaxed)),
            ("responses deleted", counts.deleted.load(Relaxed)),
            (
                "requests broken off by a restart",
                counts.killed.load(Relaxed),
            ),
            ("errors", counts.errors.load(Relaxed)),
        ]
    }

    /// Returns every sample as JSON.
    pub(super) fn json(&self) -> String {
        let sample = |sample: &Sample| {
            json!({
                "minute": sample.minute,
                "resident_mib": sample.resident_mib,
                "files": sample.files,
                "disk_mib": sample.disk_mib,
            })
        };
        let samples: Vec<_> = self.samples.iter().map(sample).collect();
        let report = json!({
            "setting": self.setting,
            "counts": self.counted().map(|(label, count)| json!({ label: count })),
            "samples": samples,
        });
        format!("{report:#}\n")
    }

    /// Returns the chart of all figures over time.
    pub(super) fn chart(&self) -> Chart<'static> {
        let line = |&(label, of): &SampleFigure| Line {
            label: label.to_owned(),
            points: self
                .samples
                .iter()
                .map(|sample| (sample.minute, of(sample)))
                .collect(),
        };
        Chart {
            title: "Memory, files and disk under chains, cancels and kill -9",
            x: "minutes",
            y: "MiB, files",
            lines: FIGURES.iter().map(line).collect(),
            logarithmic: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_in_the_last_third_is_no_plateau() {
        let sample = |minute: u32, disk_mib: f64| Sample {
            minute: f64::from(minute),
            resident_mib: 300.0,
            files: 40.0,
            disk_mib,
        };
        let samples = [sample(1, 5.0), sample(2, 9.0), sample(3, 12.0)];
        let report = SoakReport {
            setting: String::new(),
            samples: &samples,
            restarts: 2,
            counts: &Counts::default(),
            stored_max: 200,
        };
        let text = report.markdown();
        for line in [
            "| resident memory, MiB | 300 | 300 | 300 | yes |",
            "| disk, MiB | 5.00 | 9.00 | 12.0 | no |",
            "| restarts by `kill -9` | 2 |",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
