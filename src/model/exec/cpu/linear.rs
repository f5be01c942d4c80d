//! Linear layers over all tokens of a step.

use std::ops::Range;

use super::{
    ActivationBits,
    kernels::{
        SimdBackend,
        activations::{PANEL, PanelBlock, Quantise, Remainder, spread},
        dense_matmul::DenseMatmul,
        disjoint::{Chunks, Cut, Wanted},
        layout::BLOCK,
        quant_matmul::QuantMatmul,
        simd::LANES,
        thread_pool::Pool,
    },
    matrix::{Matrix, Weights},
};

/// Most tiles of one task: their weights fit into a core's own cache.
const TILES_MAX: usize = 16;
/// Tasks for each thread, so that no thread waits long for the last task.
const PIECES_PER_THREAD: usize = 6;

/// A matrix with an optional bias, 16 rows at a time.
pub(super) struct Linear {
    pub(super) matrix: Matrix,
    pub(super) bias: Option<Vec<[f32; LANES]>>,
}

/// Linear layers over the same inputs. Their outputs follow each other in whole tiles.
pub(super) struct Projection {
    parts: Vec<Linear>,
    pieces: Vec<TileTask>,
    bits: ActivationBits,
}

/// Work of one thread: some tiles of one of the layers.
struct TileTask {
    part: usize,
    tiles: Range<usize>,
    /// Number of tiles before these, over all layers.
    first: usize,
}

/// Products `[tile][token]` of sixteen rows each.
#[derive(Default)]
pub(super) struct Products {
    pub(super) all: Vec<[f32; LANES]>,
    /// End of each task.
    bounds: Vec<usize>,
}

impl Projection {
    /// Shares the tiles of all layers out into pieces of work.
    pub(super) fn new(parts: Vec<Linear>, bits: ActivationBits, threads: usize) -> Self {
        let total: usize = parts.iter().map(|part| part.matrix.tiles()).sum();
        let size = total
            .div_ceil(threads * PIECES_PER_THREAD)
            .clamp(1, TILES_MAX);
        let (mut pieces, mut before) = (Vec::new(), 0);
        for (part, linear) in parts.iter().enumerate() {
            let tiles = linear.matrix.tiles();
            for start in (0..tiles).step_by(size) {
                pieces.push(TileTask {
                    part,
                    tiles: start..tiles.min(start + size),
                    first: before + start,
                });
            }
            before += tiles;
        }
        Self {
            parts,
            pieces,
            bits,
        }
    }

    /// The tiles of each layer among those of all.
    pub(super) fn tiles_of(&self, part: usize) -> Range<usize> {
        let count = |part: &Linear| part.matrix.tiles();
        let first = self.parts[..part].iter().map(count).sum();
        first..first + count(&self.parts[part])
    }

    /// The only layer's matrix.
    pub(super) fn first(&self) -> &Matrix {
        &self.parts[0].matrix
    }

    /// The forms that the layers take activations in.
    pub(super) fn forms(&self) -> Forms {
        let is = |quantised: bool| {
            self.parts
                .iter()
                .any(|part| matches!(part.matrix.weights, Weights::Quantised(_)) == quantised)
        };
        Forms {
            quantised: is(true),
            remainders: is(true) && self.bits == ActivationBits::Sixteen,
            plain: is(false),
        }
    }

    /// All layers times all tokens.
    pub(super) fn multiply(
        &self,
        level: SimdBackend,
        pool: &mut Pool,
        x: &Activations,
        out: &mut Products,
    ) {
        let tokens = x.tokens;
        out.bounds.clear();
        out.bounds
            .extend(self.pieces.iter().map(|piece| piece.first * tokens));
        let tiles: usize = self.parts.iter().map(|part| part.matrix.tiles()).sum();
        out.bounds.push(tiles * tokens);
        grow(&mut out.all, tiles * tokens);
        pool.par_for(Cut::new(&mut out.all, &out.bounds), |index, out| {
            let piece = &self.pieces[index];
            let Linear { matrix, bias } = &self.parts[piece.part];
            let (tiles, bias) = (piece.tiles.clone(), bias.as_deref());
            match &matrix.weights {
                Weights::Quantised(weights) => {
                    let blocks = tokens.div_ceil(PANEL) * weights.blocks;
                    let has_remainders = self.bits == ActivationBits::Sixteen;
                    level.run(QuantMatmul {
                        weights,
                        tiles,
                        x: &x.quantised[..blocks],
                        remainders: has_remainders.then(|| &x.remainders[..blocks]),
                        tokens,
                        bias,
                        out,
                    });
                }
                Weights::Dense(weights) => level.run(DenseMatmul {
                    weights,
                    tiles,
                    x: &x.plain[..tokens.div_ceil(PANEL) * x.width],
                    tokens,
                    bias,
                    out,
                }),
            }
        });
    }
}

/// The activation formats that a product needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forms {
    quantised: bool,
    remainders: bool,
    plain: bool,
}

/// The inputs of linear layers.
#[derive(Default)]
pub(super) struct Activations {
    tokens: usize,
    /// Elements of a token.
    width: usize,
    /// `[panel][block]`.
    quantised: Vec<PanelBlock>,
    /// Like these, where activations have sixteen bits.
    remainders: Vec<Remainder>,
    /// `[panel][column]`.
    plain: Vec<[f32; PANEL]>,
    /// Rows on their way here, `[token][padded width]`.
    rows: Vec<f32>,
}

/// Elements of a token with padding: whole blocks.
pub(super) fn padded(width: usize) -> usize {
    width.next_multiple_of(BLOCK)
}

/// Grows a buffer to at least `len` elements. It keeps its memory when fewer are needed.
pub(super) fn grow<T: Clone + Default>(buffer: &mut Vec<T>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
}

impl Activations {
    /// Quantises the rows that `make` writes: `width` elements and zero padding for every token of
    /// `residual`, `[token][stride]`. `make` may change `residual`.
    pub(super) fn fill(
        &mut self,
        level: SimdBackend,
        pool: &mut Pool,
        (width, forms): (usize, Forms),
        residual: Rows<'_>,
        make: impl Fn(usize, &mut [f32], &mut [f32]) + Sync,
    ) {
        let Rows {
            all,
            stride: x_stride,
            tokens,
        } = residual;
        let stride = padded(width);
        let panels = tokens.div_ceil(PANEL);
        (self.tokens, self.width) = (tokens, width);
        grow(&mut self.rows, tokens * stride);
        let blocks = stride / BLOCK;
        let quantised = forms.quantised.then(|| {
            grow(&mut self.quantised, panels * blocks);
            Chunks::new(&mut self.quantised[..panels * blocks], blocks)
        });
        let remainders = forms.remainders.then(|| {
            grow(&mut self.remainders, panels * blocks);
            Chunks::new(&mut self.remainders[..panels * blocks], blocks)
        });
        let plain = forms.plain.then(|| {
            grow(&mut self.plain, panels * width);
            Chunks::new(&mut self.plain[..panels * width], width)
        });
        let rows = (
            Chunks::new(all, PANEL * x_stride),
            Chunks::new(&mut self.rows[..tokens * stride], PANEL * stride),
        );
        let forms = (
            (
                Wanted::new(quantised, panels),
                Wanted::new(remainders, panels),
            ),
            Wanted::new(plain, panels),
        );
        pool.par_for(
            (rows, forms),
            |panel, ((xs, rows), ((mut q, mut left), mut plain))| {
                let xs = xs.chunks_exact_mut(x_stride);
                for (token, (x, row)) in xs.zip(rows.chunks_exact_mut(stride)).enumerate() {
                    make(PANEL * panel + token, x, row);
                    if let Some(panel) = q.as_deref_mut() {
                        let remainders = left.as_deref_mut();
                        level.run(Quantise {
                            row,
                            panel,
                            remainders,
                            token,
                        });
                    }
                    if let Some(panel) = plain.as_deref_mut() {
                        spread(row, panel, token);
                    }
                }
            },
        );
    }
}

/// Rows of one number each token: the residual stream.
pub(super) struct Rows<'a> {
    /// `[token][stride]`.
    pub(super) all: &'a mut [f32],
    pub(super) stride: usize,
    pub(super) tokens: usize,
}
