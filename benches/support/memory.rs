//! Memory of the process that measures.

use std::fs;

/// A line of Linux's `/proc/self/status` in MiB; nothing on other systems.
pub(crate) fn memory(line: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let rest = status.lines().find_map(|found| found.strip_prefix(line))?;
    let kib: f64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}
