//! Attention masks for blocks of queries, built once a step and shared by all layers.

use std::{collections::HashMap, ops::Range};

use mlx_rs::{Array, Dtype as ArrayType};

use super::array::{Result, from_vec};

/// A block of consecutive queries of one sequence, and the keys that any of them sees.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct MaskSpec {
    /// Positions of the queries.
    pub(super) queries: Range<usize>,
    /// Positions of the keys.
    pub(super) keys: Range<usize>,
    /// Number of most recent keys that a query sees, its own included; `None` sees all.
    window: Option<usize>,
}

impl MaskSpec {
    /// Returns the mask of queries at these positions, at least one.
    pub(super) fn new(queries: Range<usize>, window: Option<usize>) -> Self {
        let first = window.map_or(0, |window| (queries.start + 1).saturating_sub(window));
        Self {
            keys: first..queries.end,
            queries,
            window,
        }
    }

    /// True if all queries see all these keys.
    pub(super) fn is_whole(&self) -> bool {
        self.queries.len() == 1
    }

    /// True if each query sees exactly the keys up to its own.
    pub(super) fn is_causal(&self) -> bool {
        self.window.is_none_or(|window| self.keys.len() <= window)
    }

    fn sees(&self, query: usize, key: usize) -> bool {
        key <= query && self.window.is_none_or(|window| query - key < window)
    }

    /// Row-major `[queries, keys]`.
    fn grid(&self) -> impl Iterator<Item = bool> + '_ {
        self.queries
            .clone()
            .flat_map(move |query| self.keys.clone().map(move |key| self.sees(query, key)))
    }
}

/// The masks of one step.
#[derive(Default)]
pub(super) struct Masks {
    additive: HashMap<MaskSpec, Array>,
    boolean: HashMap<MaskSpec, Array>,
}

impl Masks {
    /// `[queries, keys]` of 0 where a query sees a key, and minus infinity elsewhere.
    pub(super) fn additive(&mut self, mask_spec: &MaskSpec, dtype: ArrayType) -> Result<Array> {
        cached(&mut self.additive, mask_spec, |shape| {
            let shade = |seen| if seen { 0.0 } else { f32::NEG_INFINITY };
            from_vec(mask_spec.grid().map(shade).collect(), shape)?.as_dtype(dtype)
        })
    }

    /// `[queries, keys]` of whether a query sees a key.
    pub(super) fn boolean(&mut self, mask_spec: &MaskSpec) -> Result<Array> {
        cached(&mut self.boolean, mask_spec, |shape| {
            from_vec(mask_spec.grid().collect(), shape)
        })
    }
}

fn cached(
    masks: &mut HashMap<MaskSpec, Array>,
    mask_spec: &MaskSpec,
    make: impl FnOnce(&[usize]) -> Result<Array>,
) -> Result<Array> {
    if let Some(mask) = masks.get(mask_spec) {
        return Ok(mask.clone());
    }
    let mask = make(&[mask_spec.queries.len(), mask_spec.keys.len()])?;
    masks.insert(mask_spec.clone(), mask.clone());
    Ok(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(mask_spec: &MaskSpec) -> Vec<String> {
        let cells: Vec<char> = mask_spec
            .grid()
            .map(|seen| if seen { 'x' } else { '.' })
            .collect();
        cells
            .chunks(mask_spec.keys.len())
            .map(|row| row.iter().collect())
            .collect()
    }

    #[test]
    fn without_window_queries_see_everything_up_to_themselves() {
        let mask_spec = MaskSpec::new(2..5, None);
        assert_eq!(rows(&mask_spec), ["xxx..", "xxxx.", "xxxxx"]);
        assert!(mask_spec.is_causal());
    }

    #[test]
    fn a_window_counts_the_query_itself() {
        let mask_spec = MaskSpec::new(3..6, Some(2));
        assert_eq!(mask_spec.keys, 2..6);
        assert_eq!(rows(&mask_spec), ["xx..", ".xx.", "..xx"]);
        assert!(!mask_spec.is_causal());
    }

    #[test]
    fn a_single_query_needs_no_mask() {
        let mask_spec = MaskSpec::new(9..10, Some(4));
        assert_eq!(mask_spec.keys, 6..10);
        assert!(mask_spec.is_whole() && rows(&mask_spec) == ["xxxx"]);
    }

    #[test]
    fn a_wide_window_is_none() {
        assert!(MaskSpec::new(0..4, Some(4)).is_causal());
        assert!(!MaskSpec::new(0..5, Some(4)).is_causal());
    }
}
