//! JSON Schemas that grammars can enforce, and regular expressions within JSON strings.

pub(super) mod escape;
pub(super) mod schema;
