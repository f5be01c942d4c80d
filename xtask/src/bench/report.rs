//! The report of a comparison, for people and for programs.

use std::{fs, thread};

use serde_json::json;

use super::figures::{Figures, median_of, median_ratio};

/// The figures of all sides, taken in turn.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    pub(super) ours: Vec<Figures>,
    pub(super) llama_cpp: Vec<Figures>,
    /// Empty where it was left out.
    pub(super) mlx_lm: Vec<Figures>,
}

/// What there is to say.
#[derive(Debug)]
pub(super) struct Report<'a> {
    /// The model's name.
    pub(super) model: &'a str,
    pub(super) rounds: &'a Rounds,
    /// Perplexity on own kernels and on MLX in 32 bits.
    pub(super) quality: [Figures; 2],
}

/// What all sides measure: name, and what the table calls it.
const ROWS: [(&str, &str); 9] = [
    (
        "prefill_512_tokens_per_s",
        "prefill of 512 tokens, tokens/s",
    ),
    (
        "prefill_3400_tokens_per_s",
        "prefill of 3,400 tokens, tokens/s",
    ),
    ("decode_1_tokens_per_s", "decode, 1 sequence, tokens/s"),
    ("decode_4_tokens_per_s", "decode, 4 sequences, tokens/s"),
    ("decode_8_tokens_per_s", "decode, 8 sequences, tokens/s"),
    ("decode_at_100_ms_per_token", "decode at 100 tokens, ms"),
    ("decode_at_3000_ms_per_token", "decode at 3,000 tokens, ms"),
    ("peak_mib", "largest resident memory, MiB"),
    ("ready_s", "start until ready, s"),
];

/// How many times llama.cpp's rate is wanted.
const WANTED: [(&str, [(&str, f64); 5]); 2] = [
    (
        "smollm2",
        [
            ("prefill_512_tokens_per_s", 3.0),
            ("prefill_3400_tokens_per_s", 3.0),
            ("decode_1_tokens_per_s", 1.2),
            ("decode_4_tokens_per_s", 2.0),
            ("decode_8_tokens_per_s", 2.5),
        ],
    ),
    (
        "qwen2.5-coder-0.5b",
        [
            ("prefill_512_tokens_per_s", 2.0),
            ("prefill_3400_tokens_per_s", 2.0),
            ("decode_1_tokens_per_s", 1.1),
            ("decode_4_tokens_per_s", 1.5),
            ("decode_8_tokens_per_s", 2.0),
        ],
    ),
];

impl Report<'_> {
    /// Tables in Markdown.
    pub(super) fn markdown(&self) -> String {
        let Rounds {
            ours,
            llama_cpp,
            mlx_lm,
        } = self.rounds;
        let mut text = format!(
            "# The engine beside llama.cpp and mlx-lm\n\n\
             Written by `cargo xtask bench engine`. Model `{}`; medians of {} rounds, in which the \
             sides took turns; ratios are medians of the rounds' ratios. llama.cpp's server reads \
             the same file, with prompt caching off; its times are its own, without HTTP. mlx-lm \
             0.32.2 has the same weights as 32-bit floats, and OpenBLAS. The engine runs on own \
             kernels, without its prefix cache. Prefill is the time until the first token, decoding \
             follows prompts of 64 tokens. {}.\n\n\
             | | stemma | llama.cpp | ratio | wanted | mlx-lm | ratio |\n\
             |---|---|---|---|---|---|---|\n",
            self.model,
            ours.len(),
            machine(),
        );
        for (name, label) in ROWS {
            let median = |side| number(median_of(side, name));
            let ratio = |side| number(median_ratio(ours, side, name));
            let cells = [
                label.to_owned(),
                median(ours),
                median(llama_cpp),
                ratio(llama_cpp),
                self.wanted(name),
                median(mlx_lm),
                ratio(mlx_lm),
            ];
            text += &format!("| {} |\n", cells.join(" | "));
        }
        text += "\n| alone | | wanted |\n|---|---|---|\n";
        for (label, value, wanted) in self.alone() {
            text += &format!("| {label} | {} | {wanted} |\n", number(value));
        }
        text
    }

    fn wanted(&self, name: &str) -> String {
        let wanted = WANTED.iter().find(|(model, _)| *model == self.model);
        let wanted = wanted.and_then(|(_, all)| all.iter().find(|(figure, _)| *figure == name));
        wanted.map_or_else(String::new, |(_, times)| format!("at least {times}"))
    }

    /// Figures of our own, and their bounds.
    fn alone(&self) -> [(&'static str, Option<f64>, &'static str); 8] {
        let median = |name| median_of(&self.rounds.ours, name);
        let quotient = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
        let [own, mlx] = [0, 1].map(|side: usize| self.quality[side].get("perplexity").copied());
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        [
            (
                "decode at 3,000 tokens, times the time at 100",
                quotient(
                    median("decode_at_3000_ms_per_token"),
                    median("decode_at_100_ms_per_token"),
                ),
                "at most 1.5",
            ),
            (
                "decode, 8 sequences, times the rate of 1",
                quotient(
                    median("decode_8_tokens_per_s"),
                    median("decode_1_tokens_per_s"),
                ),
                "at least 3",
            ),
            ("reading and dequantising the file, s", median("read_s"), ""),
            ("loading the weights, s", median("load_s"), ""),
            (
                "`stemma serve` until it listens, times reading and dequantising",
                quotient(median("ready_s"), median("read_s")),
                "at most 2",
            ),
            ("perplexity on own kernels", own, ""),
            ("perplexity on MLX, 32-bit floats", mlx, ""),
            (
                "perplexity on own kernels, percent more",
                quotient(own, mlx).map(percent),
                "within 1",
            ),
        ]
    }

    /// Every figure of every round.
    pub(super) fn json(&self) -> String {
        let report = json!({
            "model": self.model,
            "machine": machine(),
            "stemma": self.rounds.ours,
            "llama.cpp": self.rounds.llama_cpp,
            "mlx-lm": self.rounds.mlx_lm,
            "quality": { "cpu": self.quality[0], "mlx": self.quality[1] },
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
        let rounds = Rounds {
            ours: vec![figures(&[
                ("decode_1_tokens_per_s", 20.0),
                ("decode_8_tokens_per_s", 70.0),
                ("read_s", 0.5),
                ("ready_s", 0.75),
            ])],
            llama_cpp: vec![figures(&[("decode_1_tokens_per_s", 16.0)])],
            mlx_lm: Vec::new(),
        };
        let text = Report {
            model: "smollm2",
            rounds: &rounds,
            quality: [
                figures(&[("perplexity", 20.1)]),
                figures(&[("perplexity", 20.0)]),
            ],
        }
        .markdown();
        for line in [
            "| decode, 1 sequence, tokens/s | 20.0 | 16.0 | 1.25 | at least 1.2 | – | – |",
            "| decode, 8 sequences, tokens/s | 70.0 | – | – | at least 2.5 | – | – |",
            "| decode, 8 sequences, times the rate of 1 | 3.50 | at least 3 |",
            "| `stemma serve` until it listens, times reading and dequantising | 1.50 | at most 2 |",
            "| perplexity on own kernels, percent more | 0.50 | within 1 |",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
