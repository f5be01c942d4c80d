//! Real chat templates render as the `transformers` package renders them.

mod conversations;
mod dialects;
mod expressions;
mod goldens;
