//! The report of `bench engine`, as Markdown and as JSON.

use serde_json::json;

use super::{
    figures::{Figures, median_of, median_ratio},
    report::{machine, number},
};

/// Figures of each program, one entry per round.
#[derive(Debug, Default)]
pub(super) struct Sides {
    pub(super) ours: Vec<Figures>,
    pub(super) llama_cpp: Vec<Figures>,
    /// Empty if mlx-lm was left out.
    pub(super) mlx_lm: Vec<Figures>,
}

/// Measurements of `bench engine`.
#[derive(Debug)]
pub(super) struct EngineReport<'a> {
    /// The model's name.
    pub(super) model: &'a str,
    pub(super) sides: &'a Sides,
    /// Perplexity on the CPU kernels, and on MLX with 32-bit floats.
    pub(super) perplexity: [Figures; 2],
}

/// Figures that all programs have: name, and label in the table.
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

/// Targets: the ratio of stemma's rate to llama.cpp's, by model and figure.
const TARGETS: [(&str, [(&str, f64); 5]); 2] = [
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

impl EngineReport<'_> {
    /// Returns the report as Markdown.
    pub(super) fn markdown(&self) -> String {
        let Sides {
            ours,
            llama_cpp,
            mlx_lm,
        } = self.sides;
        let mut text = format!(
            "# The engine compared with llama.cpp and mlx-lm\n\n\
             Written by `cargo xtask bench engine`. Model `{}`. Each round measures all programs in turn. \
             Figures are medians of {} rounds; ratios are medians of the rounds' ratios. llama.cpp's server \
             loads the same file as stemma, with prompt caching off; its times are those that it reports, \
             without HTTP. mlx-lm 0.32.2 loads the same weights as 32-bit floats, with OpenBLAS. The engine \
             uses its CPU kernels, without its prefix cache. Prefill is the time until the first token. \
             Decode follows prompts of 64 tokens. {}.\n\n\
             | | stemma | llama.cpp | ratio | target | mlx-lm | ratio |\n\
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
                self.target(name),
                median(mlx_lm),
                ratio(mlx_lm),
            ];
            text += &format!("| {} |\n", cells.join(" | "));
        }
        text += "\n| stemma only | | target |\n|---|---|---|\n";
        for (label, value, target) in self.alone() {
            text += &format!("| {label} | {} | {target} |\n", number(value));
        }
        text
    }

    fn target(&self, name: &str) -> String {
        let targets = TARGETS.iter().find(|(model, _)| *model == self.model);
        let target = targets.and_then(|(_, all)| all.iter().find(|(figure, _)| *figure == name));
        target.map_or_else(String::new, |(_, times)| format!("at least {times}"))
    }

    /// Returns figures that only stemma has: label, value and target.
    fn alone(&self) -> [(&'static str, Option<f64>, &'static str); 8] {
        let median = |name| median_of(&self.sides.ours, name);
        let quotient = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
        let [cpu, mlx] = [0, 1].map(|side: usize| self.perplexity[side].get("perplexity").copied());
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        [
            (
                "decode time at 3,000 tokens / at 100 tokens",
                quotient(
                    median("decode_at_3000_ms_per_token"),
                    median("decode_at_100_ms_per_token"),
                ),
                "at most 1.5",
            ),
            (
                "decode rate, 8 sequences / 1 sequence",
                quotient(
                    median("decode_8_tokens_per_s"),
                    median("decode_1_tokens_per_s"),
                ),
                "at least 3",
            ),
            ("reading and dequantising the file, s", median("read_s"), ""),
            ("loading the weights, s", median("load_s"), ""),
            (
                "start of `stemma serve` until it listens / reading and dequantising the file",
                quotient(median("ready_s"), median("read_s")),
                "at most 2",
            ),
            ("perplexity on the CPU kernels", cpu, ""),
            ("perplexity on MLX, 32-bit floats", mlx, ""),
            (
                "perplexity on the CPU kernels, excess over MLX, %",
                quotient(cpu, mlx).map(percent),
                "within 1",
            ),
        ]
    }

    /// Returns every figure of every round as JSON.
    pub(super) fn json(&self) -> String {
        let report = json!({
            "model": self.model,
            "machine": machine(),
            "stemma": self.sides.ours,
            "llama.cpp": self.sides.llama_cpp,
            "mlx-lm": self.sides.mlx_lm,
            "quality": { "cpu": self.perplexity[0], "mlx": self.perplexity[1] },
        });
        format!("{report:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::figures;

    #[test]
    fn the_report_has_ratios_and_derived_figures() {
        let sides = Sides {
            ours: vec![figures(&[
                ("decode_1_tokens_per_s", 20.0),
                ("decode_8_tokens_per_s", 70.0),
                ("read_s", 0.5),
                ("ready_s", 0.75),
            ])],
            llama_cpp: vec![figures(&[("decode_1_tokens_per_s", 16.0)])],
            mlx_lm: Vec::new(),
        };
        let text = EngineReport {
            model: "smollm2",
            sides: &sides,
            perplexity: [
                figures(&[("perplexity", 20.1)]),
                figures(&[("perplexity", 20.0)]),
            ],
        }
        .markdown();
        for line in [
            "| decode, 1 sequence, tokens/s | 20.0 | 16.0 | 1.25 | at least 1.2 | – | – |",
            "| decode, 8 sequences, tokens/s | 70.0 | – | – | at least 2.5 | – | – |",
            "| decode rate, 8 sequences / 1 sequence | 3.50 | at least 3 |",
            "| start of `stemma serve` until it listens / reading and dequantising the file | 1.50 | at most 2 |",
            "| perplexity on the CPU kernels, excess over MLX, % | 0.50 | within 1 |",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
