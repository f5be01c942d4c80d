//! The report of `bench restart`.

use super::{
    chart::Chart,
    rounds::Rounds,
    server_report::{Bound, WANTED, medians, table, wanted},
    servers::Side::{self, LlamaCpp, MlxLm, Stemma},
};

/// Tables in Markdown.
pub(super) fn markdown(rounds: &Rounds) -> String {
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
            row(
                "before that, start until ready, s",
                format!("ready_{size}_s"),
            ),
            row("tokens of the prompt", format!("prompt_{size}_tokens")),
        ]
    });
    let figures = table(&head, rows);
    let mut bounds = Vec::new();
    for &size in &sizes {
        for side in [LlamaCpp, MlxLm] {
            let first = format!("first_{size}_ms");
            let value = rounds.ratio((side, &first), (Stemma, &first));
            let what = format!("{} / stemma at {size}", side.name());
            bounds.push(wanted(what, value, (Bound::AtLeast, 5.0)));
        }
    }
    let reached = table(&WANTED, bounds);
    format!(
        "# The first turn after a restart\n\n\
         Written by `cargo xtask bench restart`: from sending a short turn of a long conversation until the \
         first text of its answer, just after the server was started again. {} The model is `smollm2`; medians \
         over {} rounds, in which the servers took turns.\n\n\
         Ours was killed with `kill -9` after the conversation, and goes on by `previous_response_id`; it \
         says that these turns were {}. The others keep nothing over a restart, so that they read a \
         prompt of that length whole, whoever held the conversation before. Every server has answered a \
         prompt of a few other tokens before, so that its weights are in memory.\n\n\
         {figures}\n{reached}\n![First turn after a restart](restart.svg)\n",
        rounds.setting(),
        rounds.all.len(),
        said(rounds, &sizes),
    )
}

/// What ours said of its turns.
fn said(rounds: &Rounds, sizes: &[u64]) -> String {
    let kinds = ["warm", "thawed", "cold", "rebuilt"];
    let count = |kind: &str| {
        let one = |size: &u64| {
            let name = format!("said_{kind}_{size}");
            let figures = rounds.all.iter().filter_map(|round| round.get("stemma"));
            figures
                .filter(|figures| figures.contains_key(&name))
                .count()
        };
        sizes.iter().map(one).sum::<usize>()
    };
    let counted = kinds.map(|kind| (kind, count(kind)));
    let counted = counted.into_iter().filter(|(_, count)| *count > 0);
    let words: Vec<_> = counted
        .map(|(kind, count)| format!("`{kind}` {count} times"))
        .collect();
    match words.is_empty() {
        true => "not measured".to_owned(),
        false => words.join(", "),
    }
}

/// Times by history.
pub(super) fn chart(rounds: &Rounds) -> Chart<'static> {
    let lines = Side::ALL.map(|side| (side.name(), side, "first_{}_ms"));
    Chart {
        title: "First token of the first turn after a restart",
        x: "tokens of history",
        y: "milliseconds",
        lines: rounds.lines(lines),
        logarithmic: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{figures::Figures, rounds::Round};

    #[test]
    fn the_report_counts_what_the_server_said() {
        let ours = Figures::from([
            ("first_4000_ms".to_owned(), 500.0),
            ("said_thawed_4000".to_owned(), 1.0),
        ]);
        let theirs = Figures::from([("first_4000_ms".to_owned(), 15_000.0)]);
        let round = Round::from([
            ("stemma".to_owned(), ours),
            ("llama.cpp".to_owned(), theirs),
        ]);
        let rounds = Rounds {
            all: vec![round.clone(), round],
            ..Rounds::default()
        };
        let text = markdown(&rounds);
        for line in [
            "| 4000 | first token of the turn, ms | 500 | 15000 | – |",
            "| llama.cpp / stemma at 4000 | 30.0 | at least 5 | yes |",
            "says that these turns were `thawed` 2 times.",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
