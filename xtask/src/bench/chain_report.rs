//! The reports of `bench chain` and `bench restart`: times to first token by the length of the history.

use super::{
    chart::Chart,
    report::{Bound, TARGETS, number, table, target},
    rounds::Rounds,
    server_report::medians,
    servers::Side::{self, LlamaCpp, MlxLm, Stemma},
};

/// Returns the report of `bench chain` as Markdown.
pub(super) fn chain_markdown(rounds: &Rounds) -> String {
    let sizes = rounds.numbers_in("warm_{}_ms");
    let head = [
        "history, tokens",
        "warm",
        "of which outside the model",
        "thawed",
        "cold",
        "rebuilt",
        "llama.cpp",
        "mlx-lm",
    ];
    let row = |&size: &u64| {
        let ours = |name: &str| number(rounds.median(Stemma, &format!("{name}_{size}_ms")));
        let theirs = |side| number(rounds.median(side, &format!("warm_{size}_ms")));
        vec![
            size.to_string(),
            ours("warm"),
            ours("outside"),
            ours("thawed_after_kill"),
            ours("cold"),
            ours("rebuilt"),
            theirs(LlamaCpp),
            theirs(MlxLm),
        ]
    };
    let figures = table(&head, sizes.iter().map(row));
    let targets = table(&TARGETS, chain_targets(rounds, &sizes));
    format!(
        "# Time to first token of a turn in a long conversation\n\n\
         Written by `cargo xtask bench chain`. Figures are milliseconds from sending a short turn until the \
         first text of its output, streamed over HTTP on loopback. {} The model is `smollm2`. Each round \
         measures all servers in turn, several turns each. Figures are medians over {} rounds; ratios are \
         computed within a round.\n\n\
         - **warm**: `previous_response_id` names the turn before, whose KV cache is in memory. \
         *Outside the model* is the rest of that time without the prefill of the turn's tokens, as measured \
         by `stemma_prefill_seconds_total` of `/metrics`. It covers HTTP, the session log, rendering, \
         tokenization and the prefix cache.\n\
         - **thawed**: the first turn after `kill -9` and a restart. stemma restores the KV cache from a \
         snapshot and reports the turn as `thawed`.\n\
         - **cold**: the first turn after `kill -9` and a restart without snapshots. The session log has the \
         tokens, and the model prefills them again.\n\
         - **rebuilt**: as cold, but with other instructions, so that stemma also renders the prompt again.\n\
         - **llama.cpp**, **mlx-lm**: their servers get the whole conversation again as chat completions. \
         Their own prompt caches are on and warm. llama.cpp loads the same file as stemma, mlx-lm the same \
         weights as 32-bit floats, with OpenBLAS.\n\n\
         {figures}\n{targets}\n![Time to first token of a turn](chain.svg)\n",
        rounds.setting(),
        rounds.all.len(),
    )
}

fn chain_targets(rounds: &Rounds, sizes: &[u64]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let ratio = |one: &str, of: u64, other: &str, to: u64| {
        let (one, other) = (format!("{one}_{of}_ms"), format!("{other}_{to}_ms"));
        rounds.ratio((Stemma, &one), (Stemma, &other))
    };
    for &size in sizes.iter().filter(|&&size| size >= 4000) {
        let label = format!("warm / cold at {size}");
        let value = ratio("warm", size, "cold", size);
        rows.push(target(label, value, (Bound::AtMost, 0.05)));
        let label = format!("thawed / cold at {size}");
        let value = ratio("thawed_after_kill", size, "cold", size);
        rows.push(target(label, value, (Bound::AtMost, 0.15)));
    }
    if let (Some(&first), Some(&last)) = (sizes.first(), sizes.last()) {
        let label = format!("outside the model, {last} / {first}");
        let value = ratio("outside", last, "outside", first);
        rows.push(target(label, value, (Bound::AtMost, 1.2)));
    }
    for &size in sizes {
        let warm = format!("warm_{size}_ms");
        for side in [LlamaCpp, MlxLm] {
            let label = format!("warm / {} at {size}", side.name());
            let value = rounds.ratio((Stemma, &warm), (side, &warm));
            rows.push(target(label, value, (Bound::AtMost, 1.0)));
        }
    }
    rows
}

/// Returns the report of `bench restart` as Markdown.
pub(super) fn restart_markdown(rounds: &Rounds) -> String {
    let sizes = rounds.numbers_in("first_{}_ms");
    let head = ["history, tokens", "", "stemma", "llama.cpp", "mlx-lm"];
    let rows = sizes.iter().flat_map(|&size| {
        let row = |label: &str, name: String| {
            let mut row = vec![size.to_string(), label.to_owned()];
            row.extend(medians(rounds, &name));
            row
        };
        [
            row("first token of the turn, ms", format!("first_{size}_ms")),
            row("start until ready, s", format!("ready_{size}_s")),
            row("tokens of the prompt", format!("prompt_{size}_tokens")),
        ]
    });
    let figures = table(&head, rows);
    let targets = sizes.iter().flat_map(|&size| {
        [LlamaCpp, MlxLm].map(|side| {
            let first = format!("first_{size}_ms");
            let value = rounds.ratio((side, &first), (Stemma, &first));
            let label = format!("{} / stemma at {size}", side.name());
            target(label, value, (Bound::AtLeast, 5.0))
        })
    });
    format!(
        "# The first turn after a restart\n\n\
         Written by `cargo xtask bench restart`. Figures are times from sending a short turn of a long \
         conversation until the first text of its output. The server was restarted just before. {} The model is \
         `smollm2`. Each round measures all servers in turn. Figures are medians over {} rounds.\n\n\
         stemma was killed with `kill -9` after the conversation, and continues it by \
         `previous_response_id`. It reported these turns as {}. The other servers keep nothing across a \
         restart, so they prefill a whole prompt of that length. Every server has completed another short \
         prompt first, so its weights are in memory.\n\n\
         {figures}\n{}\n![First turn after a restart](restart.svg)\n",
        rounds.setting(),
        rounds.all.len(),
        continuation_states(rounds, &sizes),
        table(&TARGETS, targets),
    )
}

/// Counts stemma's turns by the continuation state that the server reported.
fn continuation_states(rounds: &Rounds, sizes: &[u64]) -> String {
    let count = |state: &str| {
        let one = |size: &u64| {
            let name = format!("said_{state}_{size}");
            let figures = rounds.all.iter().filter_map(|round| round.get("stemma"));
            figures
                .filter(|figures| figures.contains_key(&name))
                .count()
        };
        sizes.iter().map(one).sum::<usize>()
    };
    let counted = ["warm", "thawed", "cold", "rebuilt"].map(|state| (state, count(state)));
    let counted = counted.into_iter().filter(|(_, count)| *count > 0);
    let words: Vec<_> = counted
        .map(|(state, count)| format!("`{state}` ({count})"))
        .collect();
    match words.is_empty() {
        true => "not measured".to_owned(),
        false => words.join(", "),
    }
}

/// Returns the chart of `bench chain`.
pub(super) fn chain_chart(rounds: &Rounds) -> Chart<'static> {
    let lines = [
        ("stemma, warm", Stemma, "warm_{}_ms"),
        ("stemma, thawed", Stemma, "thawed_after_kill_{}_ms"),
        ("stemma, cold", Stemma, "cold_{}_ms"),
        ("stemma, rebuilt", Stemma, "rebuilt_{}_ms"),
        ("llama.cpp, warm", LlamaCpp, "warm_{}_ms"),
        ("mlx-lm, warm", MlxLm, "warm_{}_ms"),
    ];
    let title = "First token of a turn, by the length of the conversation";
    chart(rounds, title, lines)
}

/// Returns the chart of `bench restart`.
pub(super) fn restart_chart(rounds: &Rounds) -> Chart<'static> {
    let lines = Side::ALL.map(|side| (side.name(), side, "first_{}_ms"));
    chart(
        rounds,
        "First token of the first turn after a restart",
        lines,
    )
}

fn chart<const N: usize>(
    rounds: &Rounds,
    title: &'static str,
    lines: [(&str, Side, &str); N],
) -> Chart<'static> {
    Chart {
        title,
        x: "tokens of history",
        y: "milliseconds",
        lines: rounds.lines(lines),
        logarithmic: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{figures::figures, rounds::Round};

    /// Rounds of stemma and llama.cpp, `count` times the same.
    fn rounds(ours: &[(&str, f64)], theirs: &[(&str, f64)], count: usize) -> Rounds {
        let round = Round::from([
            ("stemma".to_owned(), figures(ours)),
            ("llama.cpp".to_owned(), figures(theirs)),
        ]);
        Rounds {
            all: vec![round; count],
            ..Rounds::default()
        }
    }

    #[test]
    fn the_chain_report_checks_its_targets() {
        let ours = [
            ("warm_500_ms", 20.0),
            ("outside_500_ms", 4.0),
            ("warm_4000_ms", 60.0),
            ("outside_4000_ms", 6.0),
            ("cold_4000_ms", 6000.0),
            ("thawed_after_kill_4000_ms", 600.0),
        ];
        let text = chain_markdown(&rounds(&ours, &[("warm_4000_ms", 90.0)], 1));
        for line in [
            "| 4000 | 60.0 | 6.00 | 600 | 6000 | – | 90.0 | – |",
            "| warm / cold at 4000 | 0.010 | at most 0.05 | yes |",
            "| thawed / cold at 4000 | 0.10 | at most 0.15 | yes |",
            "| outside the model, 4000 / 500 | 1.50 | at most 1.2 | no |",
            "| warm / llama.cpp at 4000 | 0.67 | at most 1 | yes |",
            "| warm / mlx-lm at 4000 | – | at most 1 | – |",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }

    #[test]
    fn the_restart_report_counts_continuation_states() {
        let ours = [("first_4000_ms", 500.0), ("said_thawed_4000", 1.0)];
        let text = restart_markdown(&rounds(&ours, &[("first_4000_ms", 15_000.0)], 2));
        for line in [
            "| 4000 | first token of the turn, ms | 500 | 15000 | – |",
            "| llama.cpp / stemma at 4000 | 30.0 | at least 5 | yes |",
            "reported these turns as `thawed` (2).",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
