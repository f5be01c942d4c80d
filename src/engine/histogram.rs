//! Histograms with fixed buckets.

/// Buckets with an upper bound; each bound is twice the previous one.
const BOUNDED: usize = 17;

/// Histogram whose first bucket counts values up to `FIRST`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Histogram<const FIRST: u64> {
    counts: [u64; BOUNDED + 1],
    sum: u64,
}

/// Latencies in microseconds; bounds from 1 ms to 65 s.
pub type LatencyHistogram = Histogram<1000>;

/// Lengths in tokens; bounds from 8 to 524,288.
pub type LengthHistogram = Histogram<8>;

impl<const FIRST: u64> Histogram<FIRST> {
    /// Counts a value.
    pub(super) fn observe(&mut self, value: u64) {
        let bucket = value.div_ceil(FIRST).max(1).next_power_of_two().ilog2();
        self.counts[(bucket as usize).min(BOUNDED)] += 1;
        self.sum += value;
    }

    /// Returns the upper bound of each bucket and its own count. The bound of the last bucket is
    /// `None`.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bounds = (0..BOUNDED).map(|power| Some(FIRST << power));
        bounds.chain([None]).zip(self.counts)
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all values.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_where_they_belong() {
        let check = |value: u64, bound: Option<u64>| {
            let mut lengths = LengthHistogram::default();
            lengths.observe(value);
            let found = lengths.buckets().find(|&(_, count)| count == 1);
            assert_eq!(found, Some((bound, 1)), "{value}");
            assert_eq!((lengths.count(), lengths.sum()), (1, value));
        };
        check(0, Some(8));
        check(8, Some(8));
        check(9, Some(16));
        check(16, Some(16));
        check(17, Some(32));
        check(524_288, Some(524_288));
        check(524_289, None);
        check(u64::MAX / 2, None);
    }
}
