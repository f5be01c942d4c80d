//! The rules of docs/glossary.md for comments, names, documents and log messages.

use super::{Source, assert_none, collect, root, sources};

/// Sentences longer than this many words are counted.
const SENTENCE_WORDS_MAX: usize = 25;
/// The number of longer sentences in comments and in documents. These numbers only ever go down.
const LONG_SENTENCES_IN_COMMENTS_MAX: usize = 6;
const LONG_SENTENCES_IN_DOCUMENTS_MAX: usize = 35;
/// A log message is a constant of at most so many words; values are fields.
const LOG_MESSAGE_WORDS_MAX: usize = 8;

/// The folders whose comments and names follow the rules.
const FOLDERS: &[&str] = &["src", "tests", "xtask/src", "benches", "fuzz/fuzz_targets"];

/// A doc comment states its subject or what the function does, so it does not start with one of these.
const QUESTION_WORDS: &[&str] = &[
    "what", "whether", "how", "which", "who", "whose", "where", "why",
];

/// Words that docs/glossary.md has replaced, with the term in their place.
const RETIRED: &[(&str, &str)] = &[
    ("memories", "KV caches"),
    ("thaw", "restore"),
    ("thaws", "restores"),
    ("thawing", "restoring"),
    ("freeze", "export, or save a snapshot"),
    ("freezes", "exports"),
    ("freezing", "exporting"),
    ("froze", "exported"),
    ("guess", "draft"),
    ("guesses", "drafts"),
    ("guessed", "drafted"),
    ("guesser", "drafter"),
    ("guessing", "drafting"),
    ("thought", "reasoning"),
    ("thoughts", "reasoning"),
    ("spelling", "token text"),
    ("spellings", "token texts"),
    ("spelled", "written"),
    ("sight", "mask"),
    ("sights", "masks"),
    ("dialect", "output parser"),
    ("dialects", "output parsers"),
    ("nobody", "no client, no reader, …"),
    ("whoever", "the client, the caller, …"),
];

/// Phrases that docs/glossary.md has replaced.
const RETIRED_PHRASES: &[(&str, &str)] = &[
    ("own kernels", "CPU kernels"),
    ("of late", "recent"),
    ("so many", "the number"),
    ("large pages", "huge pages"),
];

/// Lines that may hold a retired word, by a part of the path and a part of the line.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("tests/tidy/prose.rs", ""),
    ("docs/glossary.md", ""),
    // Gemma 4's marker.
    ("docs/tool-calls.md", "<|channel>thought"),
    // The contract's name of a schema.
    ("src/wire/chat.rs", "#[schema(as = Thoughts)]"),
];

fn is_excepted(path: &str, line: &str) -> bool {
    let mut exceptions = EXCEPTIONS.iter();
    exceptions.any(|(place, text)| path.contains(place) && line.contains(text))
}

/// Comments that follow each other and stand before the same code.
struct Comment {
    line: usize,
    is_doc: bool,
    text: String,
}

fn comments(source: &Source) -> Vec<Comment> {
    let mut found: Vec<Comment> = Vec::new();
    let mut before: Option<(&str, usize)> = None;
    let mut in_fence = false;
    for (index, line) in source.text.lines().enumerate() {
        let trimmed = line.trim_start();
        let marks = ["//!", "///", "//"];
        let Some(mark) = marks.into_iter().find(|mark| trimmed.starts_with(mark)) else {
            (before, in_fence) = (None, false);
            continue;
        };
        let indent = line.len() - trimmed.len();
        let text = trimmed[mark.len()..].trim();
        if before != Some((mark, indent)) {
            in_fence = false;
            found.push(Comment {
                line: index + 1,
                is_doc: mark != "//",
                text: String::new(),
            });
        }
        before = Some((mark, indent));
        let is_fence = text.starts_with("```");
        in_fence ^= is_fence;
        if let Some(comment) = found.last_mut().filter(|_| !is_fence && !in_fence) {
            // An empty line, a list entry, a table row and a heading end the sentence before them.
            let starts = text.is_empty() || text.starts_with(['-', '*', '|', '#']);
            comment.text.push_str(if starts { ". " } else { " " });
            comment
                .text
                .push_str(text.trim_start_matches(['-', '*', '|', '#']));
        }
    }
    found
}

/// Sentences, with code in backquotes as one word.
fn sentences(text: &str) -> Vec<String> {
    let mut plain = String::new();
    for (index, part) in text.split('`').enumerate() {
        plain.push_str(if index % 2 == 0 { part } else { "code" });
    }
    let mut found = vec![String::new()];
    for word in plain.split_whitespace() {
        let sentence = found.last_mut().expect("one at least");
        sentence.push_str(word);
        sentence.push(' ');
        if word.ends_with(['.', ':', ';', '?', '!']) {
            found.push(String::new());
        }
    }
    found
}

fn long_sentences(text: &str) -> usize {
    let is_long = |sentence: &String| {
        let words = sentence.split_whitespace();
        let words = words.filter(|word| word.chars().any(char::is_alphanumeric));
        words.count() > SENTENCE_WORDS_MAX
    };
    sentences(text)
        .iter()
        .filter(|sentence| is_long(sentence))
        .count()
}

/// The words of a text; names are taken apart at underscores and at capital letters.
fn words(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut before = ' ';
    for character in text.chars() {
        let starts = character.is_uppercase() && before.is_lowercase();
        if !character.is_alphanumeric() || starts {
            found.push(String::new());
        }
        if character.is_alphanumeric() {
            let word = found.last_mut().expect("one at least");
            word.extend(character.to_lowercase());
        }
        before = character;
    }
    found.retain(|word| !word.is_empty());
    found
}

fn retired_in(line: &str, is_prose: bool) -> Option<(&'static str, &'static str)> {
    let words = words(line);
    let word = RETIRED
        .iter()
        .find(|(word, _)| words.iter().any(|it| it == word));
    let joined = words.join(" ");
    let phrase = || {
        let mut phrases = RETIRED_PHRASES.iter();
        phrases
            .find(|(phrase, _)| is_prose && format!(" {joined} ").contains(&format!(" {phrase} ")))
    };
    word.or_else(phrase).copied()
}

/// A line of code without its string literals, which hold what models and clients write.
fn without_strings(line: &str) -> String {
    let line = line.replace("\\\"", "");
    line.split('"').step_by(2).collect()
}

fn documents() -> Vec<Source> {
    let mut paths = vec![root().join("README.md"), root().join("CHANGELOG.md")];
    collect(&root().join("docs"), "md", &mut paths);
    paths.iter().map(|path| Source::read(path)).collect()
}

#[test]
fn doc_comments_start_with_their_subject() {
    let mut offences = Vec::new();
    for source in sources(FOLDERS) {
        for comment in comments(&source).iter().filter(|comment| comment.is_doc) {
            let first = words(&comment.text).into_iter().next().unwrap_or_default();
            if QUESTION_WORDS.contains(&first.as_str()) {
                offences.push(format!("{}:{}: `{first} …`", source.path, comment.line));
            }
        }
    }
    assert_none("doc comments that start with a question word", &offences);
}

#[test]
fn retired_words_do_not_come_back() {
    let mut offences = Vec::new();
    let mut check = |path: &str, number: usize, line: &str, text: &str| {
        let is_prose = line == text;
        if let Some((word, term)) = retired_in(text, is_prose).filter(|_| !is_excepted(path, line))
        {
            offences.push(format!("{path}:{number}: `{word}`: write {term}"));
        }
    };
    for source in sources(FOLDERS) {
        for (index, line) in source.text.lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            let text = match is_comment {
                true => line.to_owned(),
                false => without_strings(line),
            };
            check(&source.path, index + 1, line, &text);
        }
    }
    for document in documents() {
        for (index, line) in document.text.lines().enumerate() {
            check(&document.path, index + 1, line, line);
        }
    }
    assert_none("words that docs/glossary.md retired", &offences);
}

#[test]
fn sentences_stay_short() {
    let in_comments: usize = sources(FOLDERS)
        .iter()
        .flat_map(comments)
        .map(|comment| long_sentences(&comment.text))
        .sum();
    assert!(
        in_comments <= LONG_SENTENCES_IN_COMMENTS_MAX,
        "{in_comments} sentences in comments have more than {SENTENCE_WORDS_MAX} words"
    );
    let in_documents: usize = documents()
        .iter()
        .map(|document| {
            let paragraphs = document.text.split("\n\n");
            let prose = paragraphs.filter(|text| !text.starts_with(['|', '`']));
            prose
                .map(|text| long_sentences(&text.replace("\n- ", ". ")))
                .sum::<usize>()
        })
        .sum();
    assert!(
        in_documents <= LONG_SENTENCES_IN_DOCUMENTS_MAX,
        "{in_documents} sentences in documents have more than {SENTENCE_WORDS_MAX} words"
    );
}

/// Returns the message of a `tracing` macro whose arguments start here; `None` if it is no literal.
fn message(arguments: &str) -> Option<&str> {
    let (mut depth, mut literal, mut last) = (0_usize, None, None);
    for (at, character) in arguments.char_indices() {
        match (character, literal) {
            ('"', None) => literal = Some(at + 1),
            ('"', Some(start)) => (literal, last) = (None, Some(&arguments[start..at])),
            (_, Some(_)) => {}
            ('(', _) => depth += 1,
            (')', _) if depth == 0 => break,
            (')', _) => depth -= 1,
            (',', _)
                if arguments[at..]
                    .trim_start_matches([',', ' ', '\n'])
                    .starts_with(')') => {}
            (c, _) if !c.is_whitespace() => last = None,
            _ => {}
        }
    }
    last
}

#[test]
fn log_messages_are_short_constants() {
    let mut offences = Vec::new();
    for source in sources(&["src"]) {
        let levels = ["error!(", "warn!(", "info!(", "debug!(", "trace!("];
        for level in levels {
            let call = format!("tracing::{level}");
            for (at, _) in source.text.match_indices(&call) {
                let line = source.text[..at].lines().count();
                match message(&source.text[at + call.len()..]) {
                    None => offences.push(format!("{}:{line}: no constant message", source.path)),
                    Some(text) => {
                        let is_long = text.split_whitespace().count() > LOG_MESSAGE_WORDS_MAX;
                        if is_long || text.contains('{') {
                            offences.push(format!("{}:{line}: \"{text}\"", source.path));
                        }
                    }
                }
            }
        }
    }
    assert_none("log messages that are long or hold values", &offences);
}

#[test]
fn the_rules_find_what_breaks_them() {
    assert_eq!(words("KvMemory::thaw_all"), ["kv", "memory", "thaw", "all"]);
    assert_eq!(
        retired_in("fn thaw_all()", true).map(|(word, _)| word),
        Some("thaw")
    );
    assert_eq!(retired_in("x-stemma-continuation: thawed", true), None);
    assert_eq!(
        retired_in("the own kernels of it", true).map(|(word, _)| word),
        Some("own kernels")
    );
    assert_eq!(long_sentences(&"word ".repeat(26)), 1);
    assert_eq!(long_sentences(&"word ".repeat(25)), 0);
    assert_eq!(
        long_sentences(&"word ".repeat(20).replace("word word", "word. Word")),
        0
    );
    assert_eq!(message("reason, \"turn ended\");"), Some("turn ended"));
    assert_eq!(message("\"turn ended\",\n);"), Some("turn ended"));
    assert_eq!(message("\"turn {}\", n);"), None);
    let source = Source {
        path: "src/x.rs".to_owned(),
        text: "/// What it is.\nstruct X;\n".to_owned(),
    };
    assert_eq!(comments(&source)[0].text.trim(), "What it is.");
}
