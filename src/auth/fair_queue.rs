//! A queue that serves its groups in turn, so that a flood in one group delays no other group.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// Things that wait, by group.
#[derive(Debug)]
pub(super) struct FairQueue<G, T> {
    groups: HashMap<G, VecDeque<T>>,
    /// The groups that have something waiting, the next one first.
    turns: VecDeque<G>,
    group_max: usize,
}

impl<G: Clone + Eq + Hash, T> FairQueue<G, T> {
    /// Returns an empty queue that holds at most `group_max` entries of one group.
    pub(super) fn new(group_max: usize) -> Self {
        Self {
            groups: HashMap::new(),
            turns: VecDeque::new(),
            group_max,
        }
    }

    /// Lets something wait, or gives it back if too many of its group do already.
    pub(super) fn push(&mut self, group: G, thing: T) -> Result<(), T> {
        let waiting = self.groups.entry(group.clone()).or_default();
        if waiting.len() >= self.group_max {
            return Err(thing);
        }
        if waiting.is_empty() {
            self.turns.push_back(group);
        }
        waiting.push_back(thing);
        Ok(())
    }

    /// The first of the group whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        let group = self.turns.pop_front()?;
        let waiting = self.groups.get_mut(&group)?;
        let thing = waiting.pop_front();
        if waiting.is_empty() {
            self.groups.remove(&group);
        } else {
            self.turns.push_back(group);
        }
        thing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_take_turns() {
        let mut line = FairQueue::new(3);
        for thing in ["a1", "a2", "a3", "b1", "c1", "c2"] {
            line.push(&thing[..1], thing).expect("room");
        }
        let order: Vec<_> = std::iter::from_fn(|| line.pop()).collect();
        assert_eq!(order, ["a1", "b1", "c1", "a2", "c2", "a3"]);
    }

    #[test]
    fn a_group_has_so_much_room_and_no_more() {
        let mut line = FairQueue::new(1);
        line.push('a', 1).expect("room");
        assert_eq!(line.push('a', 2), Err(2));
        line.push('b', 3).expect("room in another group");
        assert_eq!(line.pop(), Some(1));
        line.push('a', 4).expect("room again");
        assert_eq!(
            (line.pop(), line.pop(), line.pop()),
            (Some(3), Some(4), None)
        );
    }
}
