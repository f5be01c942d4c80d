//! The report of a comparison, for people and for programs.

use std::{fs, thread};

use serde_json::json;

use super::figures::{Figures, median_of, median_ratio};

/// The rounds of both sides.
#[derive(Debug)]
pub(super) struct Report<'a> {
    /// The model's name.
    pub(super) model: &'a str,
    /// Our rounds.
    pub(super) ours: &'a [Figures],
    /// Those of mlx-lm, taken in turn with ours.
    pub(super) theirs: &'a [Figures],
}

/// What both sides measure: name, and what the table calls it.
const ROWS: [(&str, &str); 8] = [
    (
        "prefill_512_tokens_per_s",
        "prefill of 512 tokens, tokens/s",
    ),
    (
        "prefill_2048_tokens_per_s",
        "prefill of 2,048 tokens, tokens/s",
    ),
    ("decode_1_tokens_per_s", "decode, 1 sequence, tokens/s"),
    ("decode_4_tokens_per_s", "decode, 4 sequences, tokens/s"),
    ("decode_8_tokens_per_s", "decode, 8 sequences, tokens/s"),
    (
        "resident_2048_tokens_mib",
        "resident memory at 2,048 tokens, MiB",
    ),
    ("peak_mib", "largest resident memory, MiB"),
    ("load_s", "loading the weights, s"),
];

impl Report<'_> {
    /// Tables in Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "# The engine beside mlx-lm\n\n\
             Written by `cargo xtask bench engine`. Model `{}`; medians of {} rounds, in which both \
             sides took turns; the ratio is the median of the rounds' ratios. mlx-lm 0.32.2 with \
             MLX 0.32.2 loads the same weights as 32-bit floats from a folder, the engine \
             dequantises the model's file and runs without its prefix cache; both run on the same \
             OpenBLAS. Prefill is the time until the first token, decoding follows prompts of 64 \
             tokens. {}.\n\n\
             | | stemma | mlx-lm | ratio |\n|---|---|---|---|\n",
            self.model,
            self.ours.len(),
            machine(),
        );
        for (name, label) in ROWS {
            let ours = number(median_of(self.ours, name));
            let theirs = number(median_of(self.theirs, name));
            let ratio = number(median_ratio(self.ours, self.theirs, name));
            text += &format!("| {label} | {ours} | {theirs} | {ratio} |\n");
        }
        text += "\n| alone | | wanted |\n|---|---|---|\n";
        for (label, value, wanted) in self.alone() {
            text += &format!("| {label} | {} | {wanted} |\n", number(value));
        }
        text
    }

    /// Figures that are not compared with mlx-lm, and their bounds.
    fn alone(&self) -> [(&'static str, Option<f64>, &'static str); 6] {
        let median = |name| median_of(self.ours, name);
        let difference = |a: Option<f64>, b: Option<f64>| Some(a? - b?);
        let quotient = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
        [
            (
                "decode, 8 sequences, times the rate of 1",
                quotient(
                    median("decode_8_tokens_per_s"),
                    median("decode_1_tokens_per_s"),
                ),
                "at least 3",
            ),
            ("weights as 32-bit floats, MiB", median("weights_mib"), ""),
            (
                "resident memory at 2,048 tokens beyond the weights, MiB",
                difference(median("resident_2048_tokens_mib"), median("weights_mib")),
                "at most 300",
            ),
            ("reading and dequantising the file, s", median("read_s"), ""),
            ("`stemma serve` until it listens, s", median("ready_s"), ""),
            (
                "that, times reading and dequantising",
                quotient(median("ready_s"), median("read_s")),
                "at most 2",
            ),
        ]
    }

    /// Every figure of every round.
    pub(super) fn json(&self) -> String {
        let report = json!({
            "model": self.model,
            "machine": machine(),
            "stemma": self.ours,
            "mlx-lm": self.theirs,
        });
        format!("{report:#}\n")
    }
}

/// The processor, as Linux names it, and how many there are.
pub(super) fn machine() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let name = fs::read_to_string("/proc/cpuinfo").ok().and_then(|info| {
        let line = info.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(": ")?.1.to_owned())
    });
    let name = name.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    format!("Machine: {name}, {cores} cores")
}

/// Three digits that matter, or a dash for what was not measured.
pub(super) fn number(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value.abs() < 10.0 => format!("{value:.2}"),
        Some(value) if value.abs() < 100.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_compares_and_derives() {
        let figures = |pairs: &[(&str, f64)]| -> Figures {
            pairs
                .iter()
                .map(|&(name, value)| (name.to_owned(), value))
                .collect()
        };
        let ours = [figures(&[
            ("decode_1_tokens_per_s", 20.0),
            ("decode_8_tokens_per_s", 70.0),
            ("read_s", 0.5),
            ("ready_s", 0.75),
        ])];
        let theirs = [figures(&[("decode_1_tokens_per_s", 16.0)])];
        let text = Report {
            model: "m",
            ours: &ours,
            theirs: &theirs,
        }
        .markdown();
        assert!(text.contains("| decode, 1 sequence, tokens/s | 20.0 | 16.0 | 1.25 |"));
        assert!(text.contains("| decode, 8 sequences, tokens/s | 70.0 | – | – |"));
        assert!(text.contains("| decode, 8 sequences, times the rate of 1 | 3.50 | at least 3 |"));
        assert!(text.contains("| that, times reading and dequantising | 1.50 | at most 2 |"));
    }
}
