//! The Jinja environment, made to behave as the one of `transformers`.
//!
//! Features that no known template needs stay as in minijinja. Comparisons between unlike types are
//! false instead of errors, and `%` does not format strings. Macros have no `varargs` and `kwargs`.
//! A method that is not called is no attribute (`x.items` is the entry `items`). Adding to a `safe`
//! string escapes nothing. Filters for web pages (`urlize`, `wordwrap`, `xmlattr` …) are missing.

use std::fmt;

use jiff::{ZonedDateTime, fmt::strtime};
use minijinja::{
    Environment, Error, ErrorKind, Output, State, Value, escape_formatter, syntax::SyntaxConfig,
    value::ValueKind,
};
use minijinja_contrib::globals;

use crate::limits::{TEMPLATE_FUEL_MAX, TEMPLATE_RECURSION_MAX};

use super::{filters, json, methods, repr::str_of};

/// Name of the one template in the environment.
pub(super) const CHAT: &str = "chat";

/// The template's own refusal, as the cause of a rendering error.
#[derive(Debug)]
pub(super) struct Raised(pub(super) String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

/// Compiles a source into an environment of its own.
pub(super) fn with_template(source: String) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()?,
    );
    environment.set_fuel(Some(TEMPLATE_FUEL_MAX));
    environment.set_recursion_limit(TEMPLATE_RECURSION_MAX);
    environment.set_formatter(python_formatter);
    environment.set_unknown_method_callback(methods::call);
    environment.remove_global("debug");
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("joiner", globals::joiner);
    environment.add_function("cycler", globals::cycler);
    filters::register(&mut environment);
    environment.add_filter("tojson", json::tojson);
    environment.add_template_owned(CHAT, source)?;
    Ok(environment)
}

/// Prints values as Python's `str` does.
fn python_formatter(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Number | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
            out.write_str(&str_of(state, value)?).map_err(Error::from)
        }
        _ => escape_formatter(out, state, value),
    }
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    let text = message.to_string();
    Err(Error::new(ErrorKind::InvalidOperation, text.clone()).with_source(Raised(text)))
}

/// The function `strftime_now`, for a fixed time.
pub(super) fn strftime_now(now: &ZonedDateTime) -> Value {
    let now = now.clone();
    Value::from_function(move |format: &str| {
        strtime::format(format, &now).map_err(|error| {
            Error::new(
                ErrorKind::InvalidOperation,
                format!("strftime_now({format:?}): {error}"),
            )
        })
    })
}
