//! Parallel CPU streams. MLX runs the operations of one CPU stream one after the other, on one
//! core.

use std::{num::NonZero, ops::Range, thread};

use mlx_rs::{Array, Device, Stream, ops, with_stream};

use super::{
    array::{Result, slice},
    backend::Backend,
};

/// Most lanes: beyond, they wait for memory and for each other.
const LANES_MAX: usize = 8;
/// Fewest rows of a lane: below, matrices are split rather than rows.
const LANE_ROWS_MIN: usize = 32;

/// The lanes of one executor.
pub(super) enum CpuStreams {
    /// Everything in the current stream.
    One,
    /// The thread's own CPU stream, and others.
    Side {
        /// All but the first.
        others: Vec<Stream>,
    },
}

impl CpuStreams {
    pub(super) fn new(backend: Backend) -> Self {
        if backend == Backend::Gpu {
            return Self::One;
        }
        let count = thread::available_parallelism()
            .map_or(1, NonZero::get)
            .min(LANES_MAX);
        let stream = |_| Stream::new_with_device(&Device::cpu());
        Self::Side {
            others: (1..count).map(stream).collect(),
        }
    }

    /// Number of lanes.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::One => 1,
            Self::Side { others } => others.len() + 1,
        }
    }

    /// Runs `work` for task number `index`, in the lane whose turn it is.
    pub(super) fn run<T>(&self, index: usize, work: impl FnOnce() -> T) -> T {
        match self {
            Self::Side { others } if !index.is_multiple_of(others.len() + 1) => {
                with_stream(&others[index % (others.len() + 1) - 1], work)
            }
            _ => work(),
        }
    }

    /// Applies `work` to each item, in turn by lane, and joins the results along an axis.
    pub(super) fn join<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        axis: i32,
        mut work: impl FnMut(T) -> Result<Array>,
    ) -> Result<Array> {
        let parts: Vec<Array> = items
            .into_iter()
            .enumerate()
            .map(|(index, item)| self.run(index, || work(item)))
            .collect::<Result<_>>()?;
        match parts.as_slice() {
            [whole] => Ok(whole.clone()),
            parts => ops::concatenate(parts, axis),
        }
    }

    /// Applies `work` to all rows of `x`, split among the streams if there are enough rows. `work`
    /// gets its rows, and the streams that it may use.
    pub(super) fn over_rows(
        &self,
        x: &Array,
        work: impl Fn(&Array, Range<usize>, &Self) -> Result<Array>,
    ) -> Result<Array> {
        let count = x.dim(0) as usize;
        let lanes = (count / LANE_ROWS_MIN).clamp(1, self.count());
        if lanes == 1 {
            return work(x, 0..count, self);
        }
        self.join(
            (0..lanes).map(|lane| share(count, lane, lanes)),
            0,
            |rows| work(&slice(x, 0, rows.clone())?, rows, &Self::One),
        )
    }
}

/// Lane number `lane`'s part of `count` things.
pub(super) fn share(count: usize, lane: usize, lanes: usize) -> Range<usize> {
    count * lane / lanes..count * (lane + 1) / lanes
}
