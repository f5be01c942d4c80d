//! Streams that work side by side. MLX runs the operations of one CPU stream one after the other,
//! on one core; only matrix products use more.

use std::{num::NonZero, ops::Range, thread};

use mlx_rs::{Array, Device, Stream, ops, with_stream};

use super::{
    array::{Result, slice},
    backend::Backend,
};

/// Most streams: beyond, they wait for memory and for each other.
const LANES_MAX: usize = 8;
/// Fewest rows that are worth another stream.
const ROWS_MIN: usize = 64;

/// The streams of one executor; none on a GPU, where one stream is enough.
pub(super) struct Lanes(Vec<Stream>);

impl Lanes {
    pub(super) fn new(backend: Backend) -> Self {
        let count = match backend {
            Backend::Gpu => 0,
            Backend::Cpu => thread::available_parallelism()
                .map_or(1, NonZero::get)
                .min(LANES_MAX),
        };
        let stream = |_| Stream::new_with_device(&Device::cpu());
        // The executor's own stream is the first lane.
        Self((1..count).map(stream).collect())
    }

    /// Runs `work` for task number `index`, in the lane whose turn it is.
    pub(super) fn run<T>(&self, index: usize, work: impl FnOnce() -> T) -> T {
        match index % (self.0.len() + 1) {
            0 => work(),
            lane => with_stream(&self.0[lane - 1], work),
        }
    }

    /// Applies `work` to all rows of `x`, split among the lanes where there are enough.
    pub(super) fn over_rows(
        &self,
        x: &Array,
        work: impl Fn(&Array, Range<usize>) -> Result<Array>,
    ) -> Result<Array> {
        let count = x.dim(0) as usize;
        let lanes = (count / ROWS_MIN).clamp(1, self.0.len() + 1);
        if lanes == 1 {
            return work(x, 0..count);
        }
        let part = |lane: usize| count * lane / lanes;
        let parts: Vec<Array> = (0..lanes)
            .map(|lane| {
                let rows = part(lane)..part(lane + 1);
                self.run(lane, || work(&slice(x, 0, rows.clone())?, rows))
            })
            .collect::<Result<_>>()?;
        ops::concatenate(&parts, 0)
    }
}
