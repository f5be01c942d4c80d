//! The report of `bench load`.

use super::{
    chart::Chart,
    report::{Bound, TARGETS, number, table, target},
    rounds::Rounds,
    server_report::medians,
    servers::Side::{self, LlamaCpp, MlxLm, Stemma},
};

const SHORT: &str = "short_first_ms";

/// Returns the report as Markdown.
pub(super) fn markdown(rounds: &Rounds) -> String {
    let streams = rounds.numbers_in("decode_{}_tokens_per_s");
    let decode = streams.iter().map(|&streams| {
        let name = decode(streams);
        let ratio = |side| number(rounds.ratio((Stemma, &name), (side, &name)));
        let mut row = vec![streams.to_string()];
        row.extend(medians(rounds, &name));
        row.extend([ratio(LlamaCpp), ratio(MlxLm)]);
        row
    });
    let head = [
        "streams",
        "stemma",
        "llama.cpp",
        "mlx-lm",
        "/ llama.cpp",
        "/ mlx-lm",
    ];
    let decode = table(&head, decode);
    let targets = table(&TARGETS, targets(rounds, &streams));
    let short = {
        let mut row = vec!["first token of the short chat, ms".to_owned()];
        row.extend(medians(rounds, SHORT));
        let mut unanswered = vec!["long prompts still running at that time".to_owned()];
        unanswered.extend(medians(rounds, "short_long_prompts_unanswered"));
        table(&["", "stemma", "llama.cpp", "mlx-lm"], [row, unanswered])
    };
    format!(
        "# Many concurrent requests\n\n\
         Written by `cargo xtask bench load`, over HTTP on loopback. {} The model is `smollm2`. Each round \
         measures all servers in turn. Figures are medians over {} rounds; ratios are computed within a \
         round. llama.cpp loads the same file as stemma, with a slot for each stream. mlx-lm loads the same \
         weights as 32-bit floats, with OpenBLAS. Both batch as they do by default. Clients and server share \
         the CPU.\n\n\
         ## Decode\n\n\
         Tokens per second of all streams together, while all of them decode. Requests are streamed chat \
         completions of short prompts.\n\n{decode}\n![Decode](load.svg)\n\n\
         ## A short chat behind long prompts\n\n\
         All long prompts are sent at once; a short chat follows a second later.{}\n\n{short}\n\
         ## stemma only\n\n{}\n\
         With the session log *off*, stemma stores nothing (`--responses-store-max-entries=0`), and the log's \
         folder lies in memory, so that no sync waits for a disk. *On* is the default, on disk. Each client \
         repeats turns of 32 output tokens.\n\n\
         ## Targets\n\n{targets}",
        rounds.setting(),
        rounds.all.len(),
        timeouts(rounds),
        stemma_only(rounds),
    )
}

fn decode(streams: u64) -> String {
    format!("decode_{streams}_tokens_per_s")
}

/// Returns a sentence that names the servers whose short chat timed out.
fn timeouts(rounds: &Rounds) -> String {
    let timed_out = |side: &&Side| rounds.median(**side, "short_given_up") > Some(0.0);
    let sides: Vec<_> = Side::ALL
        .iter()
        .filter(timed_out)
        .map(|side| side.name())
        .collect();
    match sides.is_empty() {
        true => String::new(),
        false => format!(
            " The short chat of {} timed out; the table then shows the timeout.",
            sides.join(" and ")
        ),
    }
}

fn stemma_only(rounds: &Rounds) -> String {
    let row = |label: &str, name: &str| vec![label.to_owned(), number(rounds.median(Stemma, name))];
    table(
        &["", ""],
        [
            row("requests that share a prefix", "shared_requests"),
            row("tokens of each prompt", "shared_prompt_tokens"),
            row("tokens prefilled for all requests", "shared_read_tokens"),
            row("time until all are answered, s", "shared_all_answered_s"),
            row("session log on, tokens/s", "log_on_tokens_per_s"),
            row("session log off, tokens/s", "log_off_tokens_per_s"),
        ],
    )
}

fn targets(rounds: &Rounds, streams: &[u64]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for &streams in streams {
        let name = decode(streams);
        for side in [LlamaCpp, MlxLm] {
            let least = if (side, streams) == (LlamaCpp, 16) {
                3.0
            } else {
                1.0
            };
            let value = rounds.ratio((Stemma, &name), (side, &name));
            let label = format!("decode at concurrency {streams} / {}", side.name());
            rows.push(target(label, value, (Bound::AtLeast, least)));
        }
    }
    let short = rounds.ratio((Stemma, SHORT), (MlxLm, SHORT));
    let label = "short chat behind long prompts / mlx-lm".to_owned();
    rows.push(target(label, short, (Bound::AtMost, 0.1)));
    let prefills = rounds.median(Stemma, "shared_prefills");
    let label = "tokens prefilled for a shared prefix / prompt length".to_owned();
    rows.push(target(label, prefills, (Bound::AtMost, 2.0)));
    let log = rounds.median(Stemma, "log_on_times_off");
    let label = "throughput with the session log on / off".to_owned();
    rows.push(target(label, log, (Bound::AtLeast, 0.98)));
    rows
}

/// Returns the chart of decode rates by the number of streams.
pub(super) fn chart(rounds: &Rounds) -> Chart<'static> {
    let lines = Side::ALL.map(|side| (side.name(), side, "decode_{}_tokens_per_s"));
    Chart {
        title: "Decoding of streams at once",
        x: "streams",
        y: "tokens/s, all together",
        lines: rounds.lines(lines),
        logarithmic: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{figures::figures, rounds::Round};

    #[test]
    fn the_report_checks_its_targets_and_names_timeouts() {
        let ours = figures(&[
            ("decode_16_tokens_per_s", 800.0),
            (SHORT, 300.0),
            ("shared_prefills", 1.1),
            ("log_on_times_off", 0.97),
        ]);
        let llama = figures(&[("decode_16_tokens_per_s", 200.0)]);
        let mlx = figures(&[(SHORT, 60_000.0), ("short_given_up", 1.0)]);
        let sides = ["stemma", "llama.cpp", "mlx-lm"].map(str::to_owned);
        let rounds = Rounds {
            all: vec![Round::from_iter(sides.into_iter().zip([ours, llama, mlx]))],
            ..Rounds::default()
        };
        let text = markdown(&rounds);
        for line in [
            "| 16 | 800 | 200 | – | 4.00 | – |",
            "| decode at concurrency 16 / llama.cpp | 4.00 | at least 3 | yes |",
            "| short chat behind long prompts / mlx-lm | 0.005 | at most 0.1 | yes |",
            "| tokens prefilled for a shared prefix / prompt length | 1.10 | at most 2 | yes |",
            "| throughput with the session log on / off | 0.97 | at least 0.98 | no |",
            "The short chat of mlx-lm timed out",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
