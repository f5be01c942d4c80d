//! Analysis of a template's source, and the few rewrites that it needs before it is compiled.

/// The filter that every loop's iterable goes through.
pub(super) const LOOP_FILTER: &str = "__iterable";

/// The source with newlines as Jinja2 sees them, without `generation` tags, and with loops that
/// refuse `None`.
pub(super) fn normalised(source: &str) -> String {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut result = String::with_capacity(source.len());
    let mut rest = source.as_str();
    while let Some(start) = ["{%", "{{", "{#"]
        .iter()
        .filter_map(|open| rest.find(open))
        .min()
    {
        let (before, block) = rest.split_at(start);
        result.push_str(before);
        let (block, after) = block.split_at(block_length(block));
        result.push_str(&rewritten(block));
        rest = after;
        if statement(block) == Some("raw") {
            let (raw, after) = rest.split_at(rest.find("endraw").unwrap_or(rest.len()));
            result.push_str(raw);
            rest = after;
        }
    }
    result.push_str(rest);
    result
}

/// Length of the tag, expression or comment that a text starts with.
fn block_length(text: &str) -> usize {
    let end = match text.get(..2) {
        Some("{#") => text.find("#}"),
        Some("{{") => scan(text, |depth, rest| depth == 2 && rest.starts_with("}}")),
        _ => scan(text, |_, rest| rest.starts_with("%}")),
    };
    end.map_or(text.len(), |end| end + 2)
}

/// Returns the content of a tag, without delimiters and white space.
fn statement(tag: &str) -> Option<&str> {
    let inside = tag.strip_prefix("{%")?.trim_end_matches("%}");
    Some(inside.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+'))
}

/// Position of the first place outside of strings for which `found` holds, given the nesting in
/// brackets and the rest of the text.
fn scan(text: &str, found: impl Fn(usize, &str) -> bool) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if found(depth, &text[at..]) => return Some(at),
            None => match c {
                '\'' | '"' => quote = Some(c),
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            },
        }
    }
    None
}

/// Rewrites `generation` tags, with which `transformers` marks the model's output. They print their
/// body, and have a scope of their own as a `with` block has.
fn rewritten(block: &str) -> String {
    let result = match statement(block) {
        Some("generation") => Some(block.replace("generation", "with")),
        Some("endgeneration") => Some(block.replace("endgeneration", "endwith")),
        Some(statement) if statement.starts_with("for ") => refusing_none(block),
        _ => None,
    };
    result.unwrap_or_else(|| block.to_owned())
}

/// A loop's tag with a filter after the iterable, which ends at `if`, `recursive` or the tag's end.
fn refusing_none(tag: &str) -> Option<String> {
    let start = scan(tag, |_, rest| rest.starts_with(" in "))? + " in ".len();
    let (head, iterable) = tag.split_at(start);
    let ends = [" if ", " recursive", "\nif ", "%}", "-%}", "+%}"];
    // The brace of the opening delimiter is not in this part, so it starts at depth 0.
    let end = scan(iterable, |depth, rest| {
        depth == 0 && ends.iter().any(|end| rest.starts_with(end))
    })?;
    let (iterable, tail) = iterable.split_at(end);
    Some(format!(
        "{head}({}) | {LOOP_FILTER} {}",
        iterable.trim(),
        tail.trim_start()
    ))
}

/// True if the source has `word` as a whole word.
pub(super) fn mentions(source: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    source.match_indices(word).any(|(start, _)| {
        !source[..start].ends_with(part_of_word)
            && !source[start + word.len()..].starts_with(part_of_word)
    })
}

/// True if the template refuses call ids that do not have nine characters, as Mistral's do.
pub(super) fn wants_short_call_ids(source: &str) -> bool {
    source.contains("length != 9")
}

/// Methods by which templates look for a text in another.
const LOOK_UPS: [&str; 8] = [
    "split",
    "rsplit",
    "partition",
    "startswith",
    "endswith",
    "replace",
    "find",
    "removesuffix",
];

/// True if the template searches values for this text, as in `'</think>' in content`.
pub(super) fn parses(source: &str, token_text: &str) -> bool {
    ['\'', '"'].iter().any(|quote| {
        let quoted = format!("{quote}{token_text}{quote}");
        source.match_indices(&quoted).any(|(start, _)| {
            let before = source[..start].trim_end();
            let after = source[start + quoted.len()..].trim_start();
            after.starts_with("in ") || after.starts_with("not in ") || opens_look_up(before)
        })
    })
}

/// True if a text ends with the start of a call of one of the methods.
fn opens_look_up(text: &str) -> bool {
    let name = text
        .strip_suffix('(')
        .map(str::trim_end)
        .unwrap_or_default();
    LOOK_UPS.iter().any(|method| name.ends_with(method))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_become_scopes() {
        let source = "a{% generation %}b{%- endgeneration -%}c{% if generation %}d{% endif %}\r\n";
        let expected = "a{% with %}b{%- endwith -%}c{% if generation %}d{% endif %}\n";
        assert_eq!(normalised(source), expected);
        assert_eq!(normalised("open {% generation"), "open {% with");
    }

    #[test]
    fn only_tags_are_rewritten() {
        for source in [
            "{# it's {% generation %} #}",
            "{{ '{% generation %}' ~ {'a': {'b': 1}} }}",
            "{% raw %}{% generation %}{{ '{% for x in y %}{% endraw %}",
            "{{ unclosed {% generation %}",
        ] {
            assert_eq!(normalised(source), source);
        }
        let after = normalised(
            "{# it's #}{{ {'a': {'b': \"it's\"}} }}{% raw %}'{% endraw %}{% generation %}",
        );
        assert!(after.ends_with("{% with %}"), "{after}");
    }

    #[test]
    fn loops_refuse_none() {
        for (tag, expected) in [
            ("{% for x in y %}", "{% for x in (y) | __iterable %}"),
            (
                "{%- for k, v in d.items() -%}",
                "{%- for k, v in (d.items()) | __iterable -%}",
            ),
            (
                "{% for x in (a if b else c) if x %}",
                "{% for x in ((a if b else c)) | __iterable if x %}",
            ),
            (
                "{% for x in ' if %} ' recursive %}",
                "{% for x in (' if %} ') | __iterable recursive %}",
            ),
            (
                "{% for x in 1, [2 if y] %}",
                "{% for x in (1, [2 if y]) | __iterable %}",
            ),
            ("{% for x %}", "{% for x %}"),
            ("{% if x in y %}", "{% if x in y %}"),
        ] {
            assert_eq!(normalised(tag), expected);
        }
    }

    #[test]
    fn words_are_whole() {
        assert!(mentions("{% if tools %}", "tools"));
        assert!(!mentions("{% if builtin_tools %}", "tools"));
        assert!(!mentions("{{ tools_in_user_message }}", "tools"));
    }

    #[test]
    fn searches_for_token_texts_are_found() {
        let source = "{% if '</think>' in c %}{{ c.split( \"<think>\" )[0] }}{{ '<|im_end|>' }}";
        assert!(parses(source, "</think>"));
        assert!(parses(source, "<think>"));
        assert!(!parses(source, "<|im_end|>"));
    }
}
