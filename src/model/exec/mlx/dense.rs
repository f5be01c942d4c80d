//! Products with plain matrices, in the shapes that CPUs are fast in.

use std::ops::Range;

use mlx_rs::Array;

use super::{
    array::{Result, dim, slice},
    cpu_streams::{CpuStreams, share},
};

/// Rows of a panel.
const PANEL_ROWS: usize = 32;
/// Most multiplications of a product that is computed in panels. OpenBLAS first copies a matrix
/// into another order. For a product this small, the copy takes longer than the multiplication.
const PANEL_MULTIPLICATIONS_MAX: usize = 1_000_000;
/// Rows of input from which on the copy is worth its time.
const PANEL_INPUTS_MAX: usize = 16;
/// Elements of a matrix that are worth waiting for another lane.
const SPLIT_ELEMENTS_MIN: usize = 1 << 19;

/// A matrix `[out, in]` with views of it that multiply.
pub(super) struct Dense {
    rows: Array,
    /// `[in, out]`.
    transposed: Array,
    /// The outputs' share of each lane, `[in, out of the lane]`.
    shares: Vec<Array>,
    /// The shares as panels for few rows of input, `[panels, in, PANEL_ROWS]`, where the outputs
    /// divide into such.
    panels: Vec<Array>,
}

impl Dense {
    pub(super) fn new(rows: Array, lanes: &CpuStreams) -> Result<Self> {
        let (out, columns) = (rows.dim(0) as usize, rows.dim(1) as usize);
        let lane_count = if out * columns < SPLIT_ELEMENTS_MIN {
            1
        } else {
            lanes.count()
        };
        let lane_count = lane_count.min(out);
        let shares = (0..lane_count)
            .map(|lane| evaluated(slice(&rows, 0, share(out, lane, lane_count))?.transpose()?))
            .collect::<Result<_>>()?;
        let panels = match lanes {
            CpuStreams::One => Vec::new(),
            CpuStreams::Side { .. } => panels(&rows, lane_count)?,
        };
        Ok(Self {
            transposed: evaluated(rows.transpose()?)?,
            rows,
            shares,
            panels,
        })
    }

    /// The rows at `indices` `[n]`, as `[n, in]`.
    pub(super) fn take_rows(&self, indices: &Array) -> Result<Array> {
        self.rows.take_axis(indices, 0)
    }

    /// `[n, in]` → `[n, out]`.
    pub(super) fn multiply(&self, x: &Array, lanes: &CpuStreams) -> Result<Array> {
        let (n, columns) = (x.dim(0) as usize, x.dim(1) as usize);
        let is_small =
            n <= PANEL_INPUTS_MAX && n * columns * PANEL_ROWS <= PANEL_MULTIPLICATIONS_MAX;
        if is_small && !self.panels.is_empty() {
            self.multiply_panels(x, lanes)
        } else if lanes.count() > 1 {
            lanes.join(&self.shares, 1, |share| x.matmul(share))
        } else {
            x.matmul(&self.transposed)
        }
    }

    fn multiply_panels(&self, x: &Array, lanes: &CpuStreams) -> Result<Array> {
        let (n, out) = (x.dim(0), self.rows.dim(0));
        let x = x.expand_dims(0)?;
        let products = lanes.join(&self.panels, 0, |panels| x.matmul(panels))?;
        if n == 1 {
            return products.reshape(&[n, out]);
        }
        products.transpose_axes(&[1, 0, 2])?.reshape(&[n, out])
    }
}

/// Rows as panels, an equal share for each lane; none if they do not divide into panels.
fn panels(rows: &Array, lane_count: usize) -> Result<Vec<Array>> {
    let (out, columns) = (rows.dim(0) as usize, rows.dim(1));
    if !out.is_multiple_of(PANEL_ROWS) {
        return Ok(Vec::new());
    }
    let view = |panels: Range<usize>| {
        let shape = [dim(panels.len()), dim(PANEL_ROWS), columns];
        let own = slice(rows, 0, panels.start * PANEL_ROWS..panels.end * PANEL_ROWS)?;
        evaluated(own.reshape(&shape)?.transpose_axes(&[0, 2, 1])?)
    };
    let count = out / PANEL_ROWS;
    let lane_count = lane_count.min(count);
    (0..lane_count)
        .map(|lane| view(share(count, lane, lane_count)))
        .collect()
}

/// A view that is computed once, not in every step.
fn evaluated(view: Array) -> Result<Array> {
    view.eval()?;
    Ok(view)
}
