//! The text that a family writes around calls.

/// The text around calls, so that a grammar can make a model write them: `opening`, then calls with
/// `between` between them, then `closing`. A call is `before_name`, the name, `before_arguments`, the
/// arguments, `after_arguments`. Arguments are a JSON object if there are no `tags` for them. Where one of
/// the texts has [`Wrapper::ID`], the model makes up something that the regular expression `id` matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the sentences above say it")]
pub struct Wrapper {
    pub opening: &'static str,
    pub before_name: &'static str,
    pub before_arguments: &'static str,
    pub after_arguments: &'static str,
    pub between: &'static str,
    pub closing: &'static str,
    pub id: &'static str,
    pub tags: Option<ArgumentTags>,
}

/// The text around one argument that stands for itself: `before_key`, the key, `before_value`, the value as
/// bare text, `after_value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the sentence above says it")]
pub struct ArgumentTags {
    pub before_key: &'static str,
    pub before_value: &'static str,
    pub after_value: &'static str,
}

impl Wrapper {
    /// Stands for an id. No name has it.
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
