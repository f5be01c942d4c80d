//! Random numbers that depend on nothing but a seed and a token's position.
//!
//! The generator is ChaCha with 8 rounds (D. J. Bernstein, "ChaCha, a variant of Salsa20", 2008)
//! in its original form with a 64-bit block counter and a 64-bit nonce. The key is the seed as
//! eight little-endian bytes and 24 zero bytes, the nonce is the position, the counter starts at 0.
//! The first eight bytes of the key stream, read as a little-endian number, shifted right by 11 and
//! multiplied by 2⁻⁵³, are the random number. So it is the same on every platform, and a generation
//! that is resumed, recomputed or forked draws what the unbroken one would have drawn.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Returns the random number in `[0, 1)` for the token at `position` of a sequence.
#[must_use]
pub fn uniform(seed: u64, position: u64) -> f64 {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut generator = ChaCha8Rng::from_seed(key);
    generator.set_stream(position);
    generator.random()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by a ChaCha8 written in Python from the specification.
    const GOLDEN: [(u64, u64, f64); 7] = [
        (0, 0, 0.8369197568826472),
        (0, 1, 0.7891618892784164),
        (1, 0, 0.381489413238261),
        (42, 7, 0.1856793895444051),
        (42, 4096, 0.8309935761797668),
        (9223372036854788153, 131071, 0.13347591158940475),
        (
            18446744073709551615,
            18446744073709551615,
            0.9711684787967554,
        ),
    ];

    #[test]
    fn numbers_are_those_of_another_implementation() {
        for (seed, position, expected) in GOLDEN {
            let drawn = uniform(seed, position);
            assert_eq!(
                drawn.to_bits(),
                expected.to_bits(),
                "seed {seed}, position {position}"
            );
        }
    }
}
