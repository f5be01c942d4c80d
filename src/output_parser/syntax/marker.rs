//! Markers in a text that is still coming.

/// Position of the first of several markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// This one begins here.
    At {
        /// Its place in the list.
        marker: usize,
        /// Byte at which it begins.
        start: usize,
    },
    /// No marker; one may start at this byte offset.
    No {
        /// Bytes that belong to no marker, whatever follows.
        certain: usize,
    },
}

/// Looks for the first of several markers, none of which is the beginning of another.
pub(crate) fn first_of(text: &str, markers: &[&str]) -> Found {
    let found = |(marker, token_text): (usize, &&str)| Some((text.find(token_text)?, marker));
    match markers.iter().enumerate().filter_map(found).min() {
        Some((start, marker)) => Found::At { marker, start },
        None => Found::No {
            certain: text.len() - doubtful(text, markers),
        },
    }
}

/// Length of the longest end of the text that begins a marker.
pub(crate) fn doubtful(text: &str, markers: &[impl AsRef<str>]) -> usize {
    let markers = markers.iter().map(AsRef::as_ref);
    let longest = markers.clone().map(str::len).max().unwrap_or(0);
    let from = text.len().saturating_sub(longest);
    text.char_indices()
        .map(|(at, _)| at)
        .filter(|&at| at >= from)
        .find(|&at| {
            markers
                .clone()
                .any(|marker| marker.starts_with(&text[at..]))
        })
        .map_or(0, |at| text.len() - at)
}

/// The result of comparing a text's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    /// It does.
    Yes,
    /// It does so far, but is too short to say.
    Maybe,
    /// It does not.
    No,
}

/// Compares the start of an unfinished text with another text.
pub(crate) fn begins(text: &str, with: &str) -> Begins {
    if text.starts_with(with) {
        Begins::Yes
    } else if with.starts_with(text) {
        Begins::Maybe
    } else {
        Begins::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_marker_counts_and_beginnings_are_doubtful() {
        let markers = ["<a>", "<bc>"];
        let at = |marker, start| Found::At { marker, start };
        assert_eq!(first_of("é<bc><a>", &markers), at(1, 2));
        assert_eq!(first_of("<b<a>", &markers), at(0, 2));
        for (text, certain) in [("", 0), ("é<", 2), ("é<b", 2), ("<b<", 2), ("<x", 2)] {
            assert_eq!(first_of(text, &markers), Found::No { certain }, "{text}");
        }
        assert_eq!(first_of("<a>", &[]), Found::No { certain: 3 });
    }
}
