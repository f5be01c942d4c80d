//! A cache that evicts its least recently used entries once their weights exceed a bound.

use std::hash::Hash;

use hashlink::LruCache;

/// A map whose entries have weights, in any unit.
#[derive(Debug)]
pub struct WeightedLru<K, V> {
    entries: LruCache<K, (V, usize)>,
    weight: usize,
    weight_max: usize,
}

impl<K: Eq + Hash, V> WeightedLru<K, V> {
    /// Creates an empty cache whose entries may weigh `weight_max` together.
    #[must_use]
    pub fn new(weight_max: usize) -> Self {
        Self {
            entries: LruCache::new_unbounded(),
            weight: 0,
            weight_max,
        }
    }

    /// Returns an entry, which becomes the most recently used one.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(value, _)| value)
    }

    /// Inserts or replaces an entry, and evicts others. An entry above the bound is not inserted.
    pub fn insert(&mut self, key: K, value: V, weight: usize) {
        self.remove(&key);
        if weight > self.weight_max {
            return;
        }
        self.entries.insert(key, (value, weight));
        self.weight += weight;
        while self.weight > self.weight_max
            && let Some((_, (_, weight))) = self.entries.remove_lru()
        {
            self.weight -= weight;
        }
    }

    /// Removes an entry, if it is there.
    pub fn remove(&mut self, key: &K) {
        if let Some((_, weight)) = self.entries.remove(key) {
            self.weight -= weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn present(cache: &WeightedLru<u8, &str>) -> Vec<u8> {
        cache.entries.iter().map(|(key, _)| *key).collect()
    }

    #[test]
    fn the_least_recently_used_entries_are_evicted() {
        let mut cache = WeightedLru::new(10);
        cache.insert(1, "first", 5);
        cache.insert(2, "second", 5);
        assert_eq!(cache.get(&1), Some(&"first"));
        cache.insert(3, "third", 1);
        assert_eq!((present(&cache), cache.weight), (vec![1, 3], 6));
        cache.insert(4, "too heavy", 11);
        assert_eq!((present(&cache), cache.weight), (vec![1, 3], 6));
        cache.insert(5, "all of it", 10);
        assert_eq!((present(&cache), cache.weight), (vec![5], 10));
    }

    #[test]
    fn a_full_cache_has_room_for_new_entries() {
        let mut cache = WeightedLru::new(100);
        (0..200).for_each(|n| cache.insert(n, "", 1));
        assert_eq!(present(&cache), (100..200).collect::<Vec<_>>());
    }

    #[test]
    fn replaced_and_removed_entries_weigh_nothing() {
        let mut cache = WeightedLru::new(10);
        cache.insert(1, "first", 5);
        cache.insert(1, "again", 1);
        cache.insert(2, "second", 3);
        assert_eq!(cache.get(&1), Some(&"again"));
        assert_eq!(cache.weight, 4);
        cache.remove(&1);
        cache.remove(&3);
        assert_eq!((present(&cache), cache.weight), (vec![2], 3));
    }
}
