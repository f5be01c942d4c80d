//! Products of matrices against plain 64-bit ones, on all instructions that this processor has.

use half::{bf16, f16};
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::{
    SimdBackend,
    activations::{FINE, PANEL, PanelBlock, Quantise, Remainder, spread},
    dense_matmul::{Dense, DenseMatmul, Numbers},
    huge_page_arena::Arena,
    layout::BLOCK,
    quant_matmul::{Packing, QuantMatmul, Quantised},
    simd::LANES,
    thread_pool::Pool,
};
use crate::{
    load::BlockPart,
    model::exec::cpu::pack::{self, Format, Packer, Shape},
};

const FORMATS: [Format; 8] = [
    format(Packing::Four, 0, true, true),
    format(Packing::Four, 8, false, true),
    format(Packing::Four, 0, true, false),
    format(Packing::Five, 16, false, true),
    format(Packing::Five, 0, true, false),
    format(Packing::Eight, 128, false, true),
    format(Packing::Eight, 0, true, false),
    format(Packing::EightByHalves, 128, false, false),
];

const fn format(packing: Packing, zero: u8, has_mins: bool, half_precision: bool) -> Format {
    Format {
        packing,
        zero,
        has_mins,
        half_precision,
    }
}

/// A matrix, its parts by row and block, and how they are to be read.
struct Case {
    format: Format,
    shape: Shape,
    parts: Vec<BlockPart>,
    packed: Quantised,
}

impl Case {
    fn new(random: &mut ChaCha8Rng, format: Format, shape: Shape, extreme: bool) -> Self {
        let most: u8 = match format.packing {
            Packing::Four => 15,
            Packing::Five => 31,
            Packing::Eight | Packing::EightByHalves => 255,
        };
        let mut number = |magnitude: f32| {
            let number = random.random_range(-magnitude..magnitude);
            let number = f16::from_f32(number).to_f32();
            if random.random_range(0..8) == 0 {
                0.0
            } else {
                number
            }
        };
        let mut scales = || [number(2.0), number(2.0)];
        let parts = (0..shape.rows * shape.blocks()).map(|_| {
            let (scales, mins) = (scales(), scales());
            let same = format.packing != Packing::EightByHalves;
            BlockPart {
                quants: [0; BLOCK],
                scales: if same { [scales[0]; 2] } else { scales },
                mins: if format.has_mins {
                    [mins[0]; 2]
                } else {
                    [0.0; 2]
                },
            }
        });
        let mut parts: Vec<BlockPart> = parts.collect();
        for part in &mut parts {
            for quant in &mut part.quants {
                *quant = match extreme {
                    true => [0, most][random.random_range(0..2)],
                    false => random.random_range(0..=most),
                };
            }
        }
        let blocks = shape.blocks();
        let part_of = |row, block| parts[row * blocks + block];
        let packed = pack::quantised(&mut packer(), shape, format, part_of).unwrap();
        Self {
            format,
            shape,
            parts,
            packed,
        }
    }

    fn weight(&self, row: usize, column: usize) -> f64 {
        let part = &self.parts[row * self.shape.blocks() + column / BLOCK];
        let (i, half) = (column % BLOCK, column % BLOCK / 16);
        let quant = i32::from(part.quants[i]) - i32::from(self.format.zero);
        f64::from(part.scales[half]) * f64::from(quant) + f64::from(part.mins[half])
    }

    fn multiply(
        &self,
        level: SimdBackend,
        x: &Panels,
        tokens: usize,
        bias: Option<&[[f32; LANES]]>,
    ) -> Vec<[f32; LANES]> {
        let mut out = vec![[f32::NAN; LANES]; self.shape.tiles() * tokens];
        level.run(QuantMatmul {
            weights: &self.packed,
            tiles: 0..self.shape.tiles(),
            x: &x.all,
            remainders: x.remainders.as_deref(),
            tokens,
            bias,
            out: &mut out,
        });
        out
    }
}

fn packer() -> Packer {
    Packer {
        pool: Pool::new(2).unwrap(),
        arena: Arena::new(),
    }
}

/// Activations of 8 bits, or of 16.
struct Panels {
    blocks: usize,
    all: Vec<PanelBlock>,
    remainders: Option<Vec<Remainder>>,
}

impl Panels {
    fn new(level: SimdBackend, rows: &[Vec<f32>], is_sixteen: bool) -> Self {
        let blocks = rows[0].len() / BLOCK;
        let len = rows.len().div_ceil(PANEL) * blocks;
        let mut all = vec![PanelBlock::default(); len];
        let mut remainders = is_sixteen.then(|| vec![Remainder::default(); len]);
        for (token, row) in rows.iter().enumerate() {
            let first = token / PANEL * blocks;
            level.run(Quantise {
                row,
                panel: &mut all[first..first + blocks],
                remainders: remainders
                    .as_mut()
                    .map(|all| &mut all[first..first + blocks]),
                token: token % PANEL,
            });
        }
        Self {
            blocks,
            all,
            remainders,
        }
    }

    /// Returns a token's activation after quantisation.
    fn activation(&self, token: usize, column: usize) -> f64 {
        let index = token / PANEL * self.blocks + column / BLOCK;
        let (token, i) = (token % PANEL, column % BLOCK);
        let step = f64::from(self.all[index].quants[i / 4][token][i % 4]);
        let fine = self
            .remainders
            .as_ref()
            .map_or(0, |all| all[index].quants[i / 4][token][i % 4]);
        f64::from(self.all[index].scales[token]) * (step + f64::from(fine) / f64::from(FINE))
    }
}

fn rows(random: &mut ChaCha8Rng, tokens: usize, columns: usize, extreme: bool) -> Vec<Vec<f32>> {
    let mut number = || match extreme {
        true => [-1e4, 1e4, 0.0][random.random_range(0..3)],
        false => random.random_range(-3.0_f32..3.0),
    };
    (0..tokens)
        .map(|_| (0..columns).map(|_| number()).collect())
        .collect()
}

/// Asserts that a sum of products is as near as its terms allow.
fn assert_near(what: &str, got: f32, terms: impl Iterator<Item = f64> + Clone) {
    let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term: f64| {
        (sum + term, size + term.abs())
    });
    let apart = (f64::from(got) - sum).abs();
    assert!(apart <= 2e-5 * size + 1e-30, "{what}: {got}, not {sum}");
}

#[test]
fn quantised_products_are_those_of_what_was_packed() {
    let seed = rand::rng().next_u64();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for level in SimdBackend::all() {
        for format in FORMATS {
            for (rows_count, blocks, tokens) in [(1, 1, 1), (16, 2, 3), (17, 3, 8), (40, 5, 13)] {
                for (extreme, is_sixteen) in
                    [(false, true), (false, false), (true, false), (true, true)]
                {
                    let shape = Shape {
                        rows: rows_count,
                        columns: blocks * BLOCK,
                    };
                    let case = Case::new(&mut random, format, shape, extreme);
                    let rows = rows(&mut random, tokens, shape.columns, extreme);
                    let x = Panels::new(level, &rows, is_sixteen);
                    let bias = vec![[0.5; LANES]; shape.tiles()];
                    let out = case.multiply(level, &x, tokens, Some(&bias));
                    for row in 0..shape.rows {
                        for token in 0..tokens {
                            let got = out[row / LANES * tokens + token][row % LANES];
                            let products = (0..shape.columns).map(|column| {
                                case.weight(row, column) * x.activation(token, column)
                            });
                            let what = format!("{} {format:?} {row} {token}", level.name());
                            assert_near(&what, got, products.chain([0.5]));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn sixteen_bits_leave_next_to_nothing() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for level in SimdBackend::all() {
        for (is_sixteen, steps) in [(false, 254.0), (true, 64_500.0)] {
            let rows = rows(&mut random, 11, 3 * BLOCK, false);
            let panels = Panels::new(level, &rows, is_sixteen);
            for (token, row) in rows.iter().enumerate() {
                for (column, value) in row.iter().enumerate() {
                    let apart = (panels.activation(token, column) - f64::from(*value)).abs();
                    assert!(apart <= 3.01 / steps, "{}: {apart}", level.name());
                }
            }
        }
    }
}

#[test]
fn a_token_gets_the_same_bits_whatever_runs_beside_it() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for (level, is_sixteen) in SimdBackend::all()
        .into_iter()
        .flat_map(|l| [(l, false), (l, true)])
    {
        for format in FORMATS {
            let shape = Shape {
                rows: 33,
                columns: 4 * BLOCK,
            };
            let case = Case::new(&mut random, format, shape, false);
            let rows = rows(&mut random, 23, shape.columns, false);
            for tokens in [2, 3, 4, 7, 8, 9, 23] {
                let x = Panels::new(level, &rows[..tokens], is_sixteen);
                let out = case.multiply(level, &x, tokens, None);
                for token in 0..tokens {
                    let x = Panels::new(level, &rows[token..=token], is_sixteen);
                    let alone = case.multiply(level, &x, 1, None);
                    for (tile, alone) in alone.iter().enumerate() {
                        let beside = out[tile * tokens + token];
                        assert_eq!(alone.map(f32::to_bits), beside.map(f32::to_bits));
                    }
                }
            }
        }
    }
}

#[test]
fn dense_products_are_exact_but_for_rounding() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let shape = Shape {
        rows: 35,
        columns: 50,
    };
    let values: Vec<f32> = (0..shape.rows * shape.columns)
        .map(|_| random.random_range(-2.0..2.0))
        .collect();
    let mut packer = packer();
    let kinds = [
        pack::dense(&mut packer, shape, Numbers::F32, |i| values[i]),
        pack::dense(&mut packer, shape, Numbers::F16, |i| {
            f16::from_f32(values[i])
        }),
        pack::dense(&mut packer, shape, Numbers::Bf16, |i| {
            bf16::from_f32(values[i]).to_bits()
        }),
    ];
    let stored: [fn(f32) -> f32; 3] = [
        |value| value,
        |value| f16::from_f32(value).to_f32(),
        |value| bf16::from_f32(value).to_f32(),
    ];
    for (numbers, stored) in kinds.map(Result::unwrap).into_iter().zip(stored) {
        let weights = Dense {
            tiles: shape.tiles(),
            columns: shape.columns,
            numbers,
        };
        for level in SimdBackend::all() {
            for tokens in [1, 2, 5, 8, 11] {
                let rows = rows(&mut random, tokens, shape.columns, false);
                let mut x = vec![[0.0; PANEL]; tokens.div_ceil(PANEL) * shape.columns];
                for (token, row) in rows.iter().enumerate() {
                    let panel = &mut x[token / PANEL * shape.columns..];
                    spread(row, &mut panel[..shape.columns], token % PANEL);
                }
                let mut out = vec![[f32::NAN; LANES]; shape.tiles() * tokens];
                level.run(DenseMatmul {
                    weights: &weights,
                    tiles: 0..shape.tiles(),
                    x: &x,
                    tokens,
                    bias: None,
                    out: &mut out,
                });
                for row in 0..shape.rows {
                    for (token, x) in rows.iter().enumerate() {
                        let weights = &values[row * shape.columns..(row + 1) * shape.columns];
                        let products = weights
                            .iter()
                            .zip(x)
                            .map(|(w, x)| f64::from(stored(*w)) * f64::from(*x));
                        let got = out[row / LANES * tokens + token][row % LANES];
                        assert_near(level.name(), got, products);
                    }
                }
            }
        }
    }
}
