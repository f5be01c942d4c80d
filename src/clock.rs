//! Wall time behind a trait, so that tests can set it.
