//! Real chat templates render as the `transformers` package renders them.

mod conversations;
mod expressions;
mod goldens;
mod output_parsers;
