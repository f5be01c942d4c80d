//! The report of `bench load`.

use super::{
    chart::Chart,
    report::number,
    rounds::Rounds,
    server_report::{Bound, WANTED, medians, table, wanted},
    servers::Side::{self, LlamaCpp, MlxLm, Stemma},
};

const SHORT: &str = "short_first_ms";

/// Tables in Markdown.
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
    let reached = table(&WANTED, bounds(rounds, &streams));
    let short = {
        let mut row = vec!["first token of the short chat, ms".to_owned()];
        row.extend(medians(rounds, SHORT));
        let mut left = vec!["long prompts not answered by then".to_owned()];
        left.extend(medians(rounds, "short_long_prompts_unanswered"));
        table(&["", "stemma", "llama.cpp", "mlx-lm"], [row, left])
    };
    format!(
        "# Many at once\n\n\
         Written by `cargo xtask bench load`, over HTTP on loopback. {} The model is `smollm2`; medians over \
         {} rounds, in which the servers took turns; ratios are taken within a round. llama.cpp reads the same \
         file with a slot for each stream, mlx-lm the same weights as 32-bit floats, with OpenBLAS; both \
         batch as they do by default. Clients and server share the processors.\n\n\
         ## Decoding\n\n\
         Tokens per second of all streams together, while all of them decode: chat completions of short \
         prompts, streamed.\n\n{decode}\n![Decoding](load.svg)\n\n\
         ## A short chat behind long prompts\n\n\
         Long prompts come first and at once, a second later a short chat.{}\n\n{short}\n\
         ## Ours alone\n\n{}\n\
         The log is *off* as far as it can be: nothing is stored \
         (`--responses-store-max-entries=0`), and its folder lies in memory, so that no sync waits for a \
         disk. *On* is the default, on disk. Clients ask for 32 tokens each, again and again.\n\n\
         ## What is wanted\n\n{reached}",
        rounds.setting(),
        rounds.all.len(),
        given_up(rounds),
        alone(rounds),
    )
}

fn decode(streams: u64) -> String {
    format!("decode_{streams}_tokens_per_s")
}

/// What to know of chats that nobody waited for any longer.
fn given_up(rounds: &Rounds) -> String {
    let given_up = |side: &&Side| rounds.median(**side, "short_given_up") > Some(0.0);
    let sides: Vec<_> = Side::ALL
        .iter()
        .filter(given_up)
        .map(|side| side.name())
        .collect();
    match sides.is_empty() {
        true => String::new(),
        false => format!(" Of {} it was given up at that time.", sides.join(" and ")),
    }
}

fn alone(rounds: &Rounds) -> String {
    let row = |label: &str, name: &str| vec![label.to_owned(), number(rounds.median(Stemma, name))];
    table(
        &["", ""],
        [
            row(
                "requests that share a prompt but for its end",
                "shared_requests",
            ),
            row("tokens of such a prompt", "shared_prompt_tokens"),
            row("tokens read for all of them", "shared_read_tokens"),
            row("until all are answered, s", "shared_all_answered_s"),
            row("log on, tokens/s", "log_on_tokens_per_s"),
            row("log off, tokens/s", "log_off_tokens_per_s"),
        ],
    )
}

fn bounds(rounds: &Rounds, streams: &[u64]) -> Vec<Vec<String>> {
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
            let what = format!("decoding of {streams} / {}", side.name());
            rows.push(wanted(what, value, (Bound::AtLeast, least)));
        }
    }
    let short = rounds.ratio((Stemma, SHORT), (MlxLm, SHORT));
    let what = "short chat behind long prompts / mlx-lm".to_owned();
    rows.push(wanted(what, short, (Bound::AtMost, 0.1)));
    let prefills = rounds.median(Stemma, "shared_prefills");
    let what = "tokens read for a shared prompt / its length".to_owned();
    rows.push(wanted(what, prefills, (Bound::AtMost, 2.0)));
    let log = rounds.median(Stemma, "log_on_times_off");
    let what = "throughput with the log on / off".to_owned();
    rows.push(wanted(what, log, (Bound::AtLeast, 0.98)));
    rows
}

/// Decoding by streams.
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
    fn the_report_compares_sides_and_says_what_was_given_up() {
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
            "| decoding of 16 / llama.cpp | 4.00 | at least 3 | yes |",
            "| short chat behind long prompts / mlx-lm | 0.005 | at most 0.1 | yes |",
            "| tokens read for a shared prompt / its length | 1.10 | at most 2 | yes |",
            "| throughput with the log on / off | 0.97 | at least 0.98 | no |",
            "Of mlx-lm it was given up at that time.",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
