//! Work on one large slice, shared out over the machine's cores.

use std::thread;

/// Below this many elements for each thread, starting one costs more than it saves.
const ELEMENTS_PER_THREAD_MIN: usize = 1 << 16;

/// Calls `work(first_element, part)` on contiguous parts that cover `out`, from several threads.
/// Each part but the last is a multiple of `unit` elements long.
pub(super) fn over_parts(
    out: &mut [f32],
    unit: usize,
    work: impl Fn(usize, &mut [f32]) + Send + Sync,
) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(out.len() / ELEMENTS_PER_THREAD_MIN);
    if threads < 2 {
        return work(0, out);
    }
    let part = out.len().div_ceil(threads).next_multiple_of(unit);
    let work = &work;
    thread::scope(|scope| {
        for (index, slice) in out.chunks_mut(part).enumerate() {
            scope.spawn(move || work(index * part, slice));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_visited_once_at_its_own_place() {
        for (length, unit) in [(0, 1), (1, 32), (1 << 20, 256), ((1 << 18) + 96, 96)] {
            let mut out = vec![0.0_f32; length];
            over_parts(&mut out, unit, |first, part| {
                assert_eq!(first % unit, 0);
                for (offset, value) in part.iter_mut().enumerate() {
                    *value += (first + offset + 1) as f32;
                }
            });
            assert!(
                out.iter()
                    .enumerate()
                    .all(|(i, value)| *value == (i + 1) as f32)
            );
        }
    }
}
