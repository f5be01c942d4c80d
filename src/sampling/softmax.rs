//! Softmax over a whole vocabulary, written so that compilers vectorise it.
//!
//! Sums and maxima run over separate lanes in a fixed order. The exponential uses only IEEE
//! additions and multiplications. So results are the same on every platform, unlike with the
//! system's `expf` or a sum in an unspecified order.

use super::SamplingError;

/// Independent accumulators of a sum or maximum.
const LANES: usize = 16;

/// Below this exponent, [`exp`] returns 0: the result would not change a sum that contains a 1.
const UNDERFLOW: f32 = -87.0;

/// `e^x` for `x` from −∞ to 0, correct to about one unit in the last place; 0 below −87.
///
/// Cephes' `expf` (S. Moshier): `x = n·ln 2 + r`, a polynomial in `r`, and `2^n` by its bits.
pub(super) fn exp(x: f32) -> f32 {
    /// Adding and subtracting 1.5·2²³ rounds to the nearest integer, which the low bits hold.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;

    let clamped = if x > UNDERFLOW { x } else { UNDERFLOW };
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = clamped - n * LN_2_HIGH - n * LN_2_LOW;
    let mut p = 1.987_569_1e-4;
    for coefficient in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        p = p * r + coefficient;
    }
    let fraction = p * r * r + r + 1.0;
    let exponent = shifted
        .to_bits()
        .wrapping_sub(ROUND.to_bits())
        .wrapping_add(127);
    let scaled = fraction * f32::from_bits(exponent << 23);
    if x > UNDERFLOW { scaled } else { 0.0 }
}

/// Returns the largest logit, a finite number.
///
/// # Errors
/// If a logit is NaN or the largest is not finite.
pub(super) fn largest(logits: &[f32]) -> Result<f32, SamplingError> {
    let maxima = fold(
        logits,
        f32::NEG_INFINITY,
        |max, x| if x > max { x } else { max },
    );
    let numbers = fold(logits, true, |numbers, x| numbers & !x.is_nan());
    match maxima.into_iter().fold(f32::NEG_INFINITY, f32::max) {
        f32::INFINITY => Err(SamplingError::NotANumber),
        _ if numbers.contains(&false) => Err(SamplingError::NotANumber),
        f32::NEG_INFINITY => Err(SamplingError::NothingPossible),
        max => Ok(max),
    }
}

/// Returns the sum of a function of the logits.
pub(super) fn sum(logits: &[f32], number: impl Fn(f32) -> f32) -> f64 {
    fold(logits, 0.0, |sum, logit| sum + f64::from(number(logit)))
        .iter()
        .sum()
}

/// Folds every `LANES`-th value into one lane.
fn fold<T: Copy>(values: &[f32], start: T, join: impl Fn(T, f32) -> T) -> [T; LANES] {
    let mut lanes = [start; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = join(*lane, value);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane = join(*lane, value);
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_correct_to_the_last_place() {
        let mut worst: f64 = 0.0;
        for step in 0..870_000 {
            let x = -(step as f32) / 10_000.0;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - exact).abs() / exact);
        }
        assert!(worst < 1.2e-7, "{worst}");
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-87.5), 0.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    }

    #[test]
    fn exponentials_have_the_same_bits_everywhere() {
        let bits = [-1e-6, -0.5, -1.0, -10.0, -80.0].map(|x| exp(x).to_bits());
        // Computed in Python with every operation rounded to single precision.
        let expected = [
            0x3f7f_ffef,
            0x3f1b_4598,
            0x3ebc_5ab2,
            0x383e_6bce,
            0x05bf_ecba,
        ];
        assert_eq!(bits, expected);
    }

    #[test]
    fn the_largest_is_found_in_every_lane() {
        for at in 0..50 {
            let mut logits = vec![-1.0; 50];
            logits[at] = 2.0;
            assert_eq!(largest(&logits), Ok(2.0));
            logits[49 - at] = f32::NAN;
            assert_eq!(largest(&logits), Err(SamplingError::NotANumber));
        }
        assert_eq!(
            largest(&[0.0, f32::INFINITY]),
            Err(SamplingError::NotANumber)
        );
        assert_eq!(
            largest(&[f32::NEG_INFINITY; 4]),
            Err(SamplingError::NothingPossible)
        );
        assert_eq!(largest(&[]), Err(SamplingError::NothingPossible));
    }

    #[test]
    fn sums_hold_every_number_once() {
        let numbers: Vec<f32> = (0..100).map(|n| n as f32).collect();
        assert_eq!(sum(&numbers, |n| 2.0 * n), 9900.0);
    }
}
