//! The number of threads for a step.

use std::{collections::BTreeSet, fs, thread};

/// Number of physical cores that this process may use: two threads of one core share what the
/// kernels need all of.
#[must_use]
pub fn physical_cores() -> usize {
    let available = thread::available_parallelism().map_or(1, usize::from);
    linux_cores().map_or(available, |cores| cores.clamp(1, available))
}

/// Cores as Linux lists them: logical processors of one core name the same siblings.
fn linux_cores() -> Option<usize> {
    let mut cores = BTreeSet::new();
    for entry in fs::read_dir("/sys/devices/system/cpu").ok()? {
        let siblings = entry.ok()?.path().join("topology/thread_siblings_list");
        cores.extend(fs::read_to_string(siblings));
    }
    (!cores.is_empty()).then_some(cores.len())
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_is_a_core() {
        let cores = super::physical_cores();
        assert!((1..=std::thread::available_parallelism().unwrap().get()).contains(&cores));
    }
}
