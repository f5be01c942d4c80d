//! `stemma models`.

use std::{
    io::{self, Write as _},
    path::Path,
};

use anyhow::{Context as _, bail};

use crate::load::alias::{self, ALIASES, Alias};

/// Downloads aliases and prints where each lies, one a line.
pub(super) fn fetch(names: &[String], cache: Option<&Path>) -> anyhow::Result<()> {
    let cache = super::sources(cache).cache;
    let aliases = match names {
        [] => ALIASES.iter().take(1).collect(),
        names => names
            .iter()
            .map(|name| find(name))
            .collect::<anyhow::Result<Vec<_>>>()?,
    };
    for alias in aliases {
        let path = alias::fetch(alias, &cache)?;
        writeln!(io::stdout(), "{}", path.display()).context("cannot write to standard output")?;
    }
    Ok(())
}

fn find(name: &str) -> anyhow::Result<&'static Alias> {
    let Some(alias) = alias::find(name) else {
        let all: Vec<&str> = ALIASES.iter().map(|alias| alias.name).collect();
        bail!("`{name}` is not an alias; there are {}", all.join(", "));
    };
    Ok(alias)
}
