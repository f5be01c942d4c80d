//! The report of `bench soak`.

use std::sync::atomic::Ordering::Relaxed;

use serde_json::json;

use super::{
    chart::{Chart, Line},
    report::number,
    server_report::table,
    soak::Counts,
};

/// The server's process and folder at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) minute: f64,
    pub(super) resident_mib: f64,
    /// Open file descriptors, connections included.
    pub(super) files: f64,
    /// Files of the session log's folder.
    pub(super) disk_mib: f64,
}

/// What there is to say.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) setting: String,
    pub(super) samples: &'a [Sample],
    pub(super) restarts: u64,
    pub(super) counts: &'a Counts,
    /// Stored responses that the server kept.
    pub(super) kept: u64,
}

/// A figure that is looked at, and how it is called.
type Look = (&'static str, fn(&Sample) -> f64);

const LOOKS: [Look; 3] = [
    ("resident memory, MiB", |sample| sample.resident_mib),
    ("open files", |sample| sample.files),
    ("disk, MiB", |sample| sample.disk_mib),
];

/// How much the largest of the last third may exceed that of the middle third.
const PLATEAU: f64 = 1.1;

impl Report<'_> {
    /// Tables in Markdown.
    pub(super) fn markdown(&self) -> String {
        let minutes = self.samples.last().map_or(0.0, |sample| sample.minute);
        let rows = LOOKS.iter().map(|&(label, of)| {
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
            "largest of",
            "first third",
            "middle third",
            "last third",
            "plateau",
        ];
        let looks = table(&head, rows);
        let counts = self
            .counted()
            .map(|(label, count)| vec![label.to_owned(), count.to_string()]);
        format!(
            "# Chains, cancels and `kill -9` for a while\n\n\
             Written by `cargo xtask bench soak`: {minutes:.0} minutes of clients that hold conversations, hang up \
             on some answers and delete some conversations, while the server is killed with `kill -9` and \
             started again. It keeps {} stored responses and 256 MiB of key/value memory, so that what grows \
             beyond that would be a leak. {} A plateau is a last third that exceeds the middle third by a \
             tenth at most.\n\n{looks}\n{}\n![Memory, files and disk](soak.svg)\n",
            self.kept,
            self.setting,
            table(&["", ""], counts),
        )
    }

    /// The largest of each third of the time.
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

    /// Every sample.
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

    /// All looks over time.
    pub(super) fn chart(&self) -> Chart<'static> {
        let line = |&(label, of): &Look| Line {
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
            lines: LOOKS.iter().map(line).collect(),
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
        let report = Report {
            setting: String::new(),
            samples: &samples,
            restarts: 2,
            counts: &Counts::default(),
            kept: 200,
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
