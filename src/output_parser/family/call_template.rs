//! The text that a family writes around calls.

/// The fixed text around calls, so that a grammar can force calls.
///
/// An answer is `opening`, calls with `between` between them, and `closing`. A call is
/// `before_name`, the name, `before_arguments`, the arguments, `after_arguments`. Arguments are a
/// JSON object, unless there are `tags`. [`CallTemplate::ID`] in a text stands for an id that the
/// model makes up, which matches the regular expression `id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the sentences above say it")]
pub struct CallTemplate {
    pub opening: &'static str,
    pub before_name: &'static str,
    pub before_arguments: &'static str,
    pub after_arguments: &'static str,
    pub between: &'static str,
    pub closing: &'static str,
    pub id: &'static str,
    pub tags: Option<ArgumentTags>,
}

/// The fixed text around one argument: `before_key`, the key, `before_value` (or `before_text`
/// before a string, if that differs), the value, `after_value`. `between` is the text between
/// arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the sentences above say it")]
pub struct ArgumentTags {
    pub before_key: &'static str,
    pub before_value: &'static str,
    pub before_text: Option<&'static str>,
    pub after_value: &'static str,
    pub between: &'static str,
    /// Notation of string values.
    pub texts: Texts,
}

/// Notation of an argument's string value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texts {
    /// As it is.
    Bare,
    /// Unchanged; with a line end, `<` or `&` in it, between [`Texts::CDATA`].
    Cdata,
    /// A JSON string.
    Json,
    /// Unchanged, between two of this marker, also within other values, whose keys are bare.
    Marked(&'static str),
}

impl Texts {
    /// Delimiters of a text that XML does not parse.
    pub const CDATA: [&str; 2] = ["<![CDATA[", "]]>"];
}

impl ArgumentTags {
    /// Nothing around keys and values.
    pub(crate) const PLAIN: Self = Self {
        before_key: "",
        before_value: "",
        before_text: None,
        after_value: "",
        between: "",
        texts: Texts::Bare,
    };
}

impl CallTemplate {
    /// Placeholder for an id; no name contains it.
    pub const ID: char = '\u{fffc}';

    /// Nothing around a name and a JSON object.
    pub(crate) const PLAIN: Self = Self {
        opening: "",
        before_name: "",
        before_arguments: "",
        after_arguments: "",
        between: "",
        closing: "",
        id: "",
        tags: None,
    };

    /// Objects of a `name` and `arguments`, listed as JSON lists them, without anything around.
    pub const LISTED: Self = Self {
        before_name: "{\"name\": \"",
        before_arguments: "\", \"arguments\": ",
        after_arguments: "}",
        between: ", ",
        ..Self::PLAIN
    };
}
