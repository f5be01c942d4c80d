//! The report of `bench chain`.

use super::{
    chart::Chart,
    report::number,
    rounds::Rounds,
    server_report::{Bound, WANTED, table, wanted},
    servers::Side::{LlamaCpp, MlxLm, Stemma},
};

/// Tables in Markdown.
pub(super) fn markdown(rounds: &Rounds) -> String {
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
        let ours = |what: &str| number(rounds.median(Stemma, &format!("{what}_{size}_ms")));
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
    let reached = table(&WANTED, bounds(rounds, &sizes));
    format!(
        "# The first token of a turn in a long conversation\n\n\
         Written by `cargo xtask bench chain`: milliseconds from sending a short turn until the first text \
         of its answer, streamed over HTTP on loopback. {} The model is `smollm2`; medians over {} rounds, in \
         which the servers took turns, of several turns each; ratios are taken within a round.\n\n\
         - **warm**: `previous_response_id` names the turn before, whose keys and values are in memory. \
         *Outside the model* is what is left of it without the time in which the model read the turn's \
         tokens, as `stemma_prefill_seconds_total` of `/metrics` tells: HTTP, the log, rendering, \
         tokenising, the prefix cache, the way there and back.\n\
         - **thawed**: the first turn after `kill -9` and a restart that the server says is `thawed`.\n\
         - **cold**: after `kill -9` and a restart without snapshots, the tokens are known and read again.\n\
         - **rebuilt**: the same with other instructions, so that everything is rendered and read again.\n\
         - **llama.cpp**, **mlx-lm**: their servers, to which the whole conversation is sent again as chat \
         completions, with their own prompt caches on and warm. llama.cpp reads the same file, mlx-lm \
         the same weights as 32-bit floats, with OpenBLAS.\n\n\
         {figures}\n{reached}\n![First token of a turn](chain.svg)\n",
        rounds.setting(),
        rounds.all.len(),
    )
}

fn bounds(rounds: &Rounds, sizes: &[u64]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let ratio = |one: &str, of: u64, other: &str, to: u64| {
        let (one, other) = (format!("{one}_{of}_ms"), format!("{other}_{to}_ms"));
        rounds.ratio((Stemma, &one), (Stemma, &other))
    };
    for &size in sizes.iter().filter(|&&size| size >= 4000) {
        let what = format!("warm / cold at {size}");
        let value = ratio("warm", size, "cold", size);
        rows.push(wanted(what, value, (Bound::AtMost, 0.05)));
        let what = format!("thawed / cold at {size}");
        let value = ratio("thawed_after_kill", size, "cold", size);
        rows.push(wanted(what, value, (Bound::AtMost, 0.15)));
    }
    if let (Some(&first), Some(&last)) = (sizes.first(), sizes.last()) {
        let what = format!("outside the model, {last} / {first}");
        let value = ratio("outside", last, "outside", first);
        rows.push(wanted(what, value, (Bound::AtMost, 1.2)));
    }
    for &size in sizes {
        let warm = format!("warm_{size}_ms");
        for side in [LlamaCpp, MlxLm] {
            let what = format!("warm / {} at {size}", side.name());
            let value = rounds.ratio((Stemma, &warm), (side, &warm));
            rows.push(wanted(what, value, (Bound::AtMost, 1.0)));
        }
    }
    rows
}

/// Times by history.
pub(super) fn chart(rounds: &Rounds) -> Chart<'static> {
    let lines = [
        ("stemma, warm", Stemma, "warm_{}_ms"),
        ("stemma, thawed", Stemma, "thawed_after_kill_{}_ms"),
        ("stemma, cold", Stemma, "cold_{}_ms"),
        ("stemma, rebuilt", Stemma, "rebuilt_{}_ms"),
        ("llama.cpp, warm", LlamaCpp, "warm_{}_ms"),
        ("mlx-lm, warm", MlxLm, "warm_{}_ms"),
    ];
    Chart {
        title: "First token of a turn, by the length of the conversation",
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

    #[test]
    fn the_report_says_what_is_wanted_and_whether_it_is_so() {
        let ours = figures(&[
            ("warm_500_ms", 20.0),
            ("outside_500_ms", 4.0),
            ("warm_4000_ms", 60.0),
            ("outside_4000_ms", 6.0),
            ("cold_4000_ms", 6000.0),
            ("thawed_after_kill_4000_ms", 600.0),
        ]);
        let theirs = figures(&[("warm_4000_ms", 90.0)]);
        let round = Round::from([
            ("stemma".to_owned(), ours),
            ("llama.cpp".to_owned(), theirs),
        ]);
        let rounds = Rounds {
            all: vec![round],
            ..Rounds::default()
        };
        let text = markdown(&rounds);
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
}
