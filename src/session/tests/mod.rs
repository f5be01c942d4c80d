//! Tests of the whole session log.

#[cfg(test)]
mod random;
