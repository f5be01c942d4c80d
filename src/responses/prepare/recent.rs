//! A cache by session with a bound on the total weight.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use crate::session::SessionId;

/// Values by session; the oldest are evicted when the total weight exceeds the bound.
#[derive(Debug)]
pub(crate) struct Recent<T: ?Sized> {
    by_session: HashMap<SessionId, (Arc<T>, usize)>,
    oldest_first: VecDeque<SessionId>,
    weight: usize,
    weight_max: usize,
}

impl<T: ?Sized> Recent<T> {
    pub(crate) fn new(weight_max: usize) -> Self {
        Self {
            by_session: HashMap::new(),
            oldest_first: VecDeque::new(),
            weight: 0,
            weight_max,
        }
    }

    pub(crate) fn get(&self, session: SessionId) -> Option<Arc<T>> {
        self.by_session.get(&session).map(|(it, _)| Arc::clone(it))
    }

    pub(crate) fn keep(&mut self, session: SessionId, it: Arc<T>, weight: usize) {
        if self.by_session.contains_key(&session) {
            return;
        }
        self.by_session.insert(session, (it, weight));
        self.oldest_first.push_back(session);
        self.weight += weight;
        while self.weight > self.weight_max
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.drop_one(oldest);
        }
    }

    pub(crate) fn forget(&mut self, session: SessionId) {
        if self.drop_one(session) {
            self.oldest_first.retain(|&kept| kept != session);
        }
    }

    fn drop_one(&mut self, session: SessionId) -> bool {
        let dropped = self.by_session.remove(&session);
        self.weight -= dropped.as_ref().map_or(0, |(_, weight)| *weight);
        dropped.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> SessionId {
        SessionId([n; 16])
    }

    #[test]
    fn the_oldest_give_way_when_all_together_weigh_too_much() {
        let mut recent = Recent::<str>::new(10);
        let there = |recent: &Recent<str>| [1, 2, 3].map(|n| recent.get(id(n)).is_some());
        recent.keep(id(1), "first".into(), 5);
        recent.keep(id(1), "again".into(), 1);
        recent.keep(id(2), "second".into(), 5);
        assert_eq!(there(&recent), [true, true, false]);
        assert_eq!(recent.get(id(1)).as_deref(), Some("first"));
        recent.keep(id(3), "third".into(), 1);
        assert_eq!(there(&recent), [false, true, true]);
        // Too large to be kept at all.
        recent.keep(id(4), "fourth".into(), 11);
        assert!(recent.get(id(4)).is_none());
        assert_eq!(recent.weight, 0);
    }

    #[test]
    fn what_is_forgotten_weighs_nothing_more() {
        let mut recent = Recent::<str>::new(10);
        recent.keep(id(1), "first".into(), 5);
        recent.keep(id(2), "second".into(), 3);
        recent.forget(id(1));
        recent.forget(id(3));
        assert!(recent.get(id(1)).is_none());
        assert_eq!((recent.weight, recent.oldest_first.len()), (3, 1));
    }
}
