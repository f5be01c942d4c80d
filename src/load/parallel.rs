//! Parallel loops over one large slice.

use rayon::prelude::*;

/// Elements of one task: below this number, handing it to another thread costs more than it saves.
const TASK_ELEMENTS: usize = 1 << 16;

/// Calls `work(first_element, part)` on contiguous parts that cover `out`, from several threads.
/// Each part but the last is a multiple of `unit` elements long.
pub(super) fn over_parts(
    out: &mut [f32],
    unit: usize,
    work: impl Fn(usize, &mut [f32]) + Send + Sync,
) {
    let len = TASK_ELEMENTS.next_multiple_of(unit);
    let parts = out.par_chunks_mut(len).enumerate();
    parts.for_each(|(index, part)| work(index * len, part));
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
            let is_visited = |(i, value): (usize, &f32)| *value == (i + 1) as f32;
            assert!(out.iter().enumerate().all(is_visited));
        }
    }
}
