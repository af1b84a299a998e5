//! The calls of one shard that wait for their answers: from a call's number to whoever waits.
//!
//! A number names a slot and the one use of it, so an answer that comes late, or twice, finds nobody. Whoever takes an
//! entry out is the only one to have it: the answer, the caller that gives up, or the end of the session. What an answer
//! may say is listed here too.

use crate::etf;
use crate::wire::CallId;

/// Slots of a table; a session with more calls waiting on one shard refuses further ones.
const MOST: usize = 1 << 24;

/// The waiting calls of one shard.
#[derive(Debug)]
pub struct Calls<T> {
    shard: u8,
    most: usize,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    next_use: u32,
    /// Where the next look for callers that are gone begins.
    looked_at: usize,
}

#[derive(Debug)]
struct Slot<T> {
    used: u32,
    waiting: Option<T>,
}

impl<T> Calls<T> {
    /// `first_use` differs between sessions, so that a number of one means nothing in another.
    pub fn new(shard: u8, first_use: u32) -> Self {
        Self::with_room(shard, first_use, MOST)
    }

    fn with_room(shard: u8, first_use: u32, most: usize) -> Self {
        Calls {
            shard,
            most,
            slots: Vec::new(),
            free: Vec::new(),
            next_use: first_use,
            looked_at: 0,
        }
    }

    /// Enters who waits; answers the call's number, or the waiting one back when there is no room.
    pub fn enter(&mut self, waiting: T) -> Result<CallId, T> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < self.most => {
                self.slots.push(Slot {
                    used: 0,
                    waiting: None,
                });
                (self.slots.len() - 1) as u32
            }
            None => return Err(waiting),
        };
        let used = self.next_use;
        self.next_use = self.next_use.wrapping_add(1);
        match self.slots.get_mut(slot as usize) {
            Some(place) => {
                *place = Slot {
                    used,
                    waiting: Some(waiting),
                }
            }
            None => return Err(waiting),
        }
        Ok(u64::from(self.shard) << 56 | u64::from(slot) << 32 | u64::from(used))
    }

    /// Takes out who waits for this call, if anybody still does.
    pub fn take(&mut self, id: CallId) -> Option<T> {
        let slot = (id >> 32) as u32 & (MOST as u32 - 1);
        let place = self.slots.get_mut(slot as usize)?;
        if place.used != id as u32 || shard_of(id) != usize::from(self.shard) {
            return None;
        }
        let waiting = place.waiting.take()?;
        self.free.push(slot);
        Some(waiting)
    }

    /// Takes out everybody.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.free.clear();
        self.looked_at = 0;
        self.slots.drain(..).filter_map(|slot| slot.waiting)
    }

    /// Takes out those for whom `keep` is false, among the next `most` slots from where the last look ended. A table in
    /// which nobody waits gives its memory back.
    pub fn retain(&mut self, most: usize, mut keep: impl FnMut(&T) -> bool) {
        if self.waiting() == 0 {
            (self.slots, self.free) = (Vec::new(), Vec::new());
        }
        let begin = self.looked_at.min(self.slots.len());
        let looked_at = self.slots.len().min(begin.saturating_add(most));
        for (slot, place) in self
            .slots
            .iter_mut()
            .enumerate()
            .take(looked_at)
            .skip(begin)
        {
            if place.waiting.as_ref().is_some_and(|waiting| !keep(waiting)) {
                place.waiting = None;
                self.free.push(slot as u32);
            }
        }
        self.looked_at = if looked_at < self.slots.len() {
            looked_at
        } else {
            0
        };
    }

    /// Calls that wait.
    pub fn waiting(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// The shard in whose table a call waits.
pub fn shard_of(id: CallId) -> usize {
    (id >> 56) as usize
}

/// The ways in which a body ends, and the elements of the tuple that says so, the name in front included.
pub const OUTCOMES: [(&str, usize); 6] = [
    ("return", 2),
    ("throw", 2),
    ("exit", 2),
    ("error", 3),
    ("signal", 2),
    ("system", 2),
];

/// Does `plain`, external term format with its leading 131, start as the term of an answer?
pub fn starts_as_outcome(plain: &[u8]) -> bool {
    let (arity, length, rest) = match plain {
        [
            etf::VERSION,
            etf::SMALL_TUPLE,
            arity,
            tag,
            length,
            rest @ ..,
        ] if [etf::SMALL_ATOM_UTF8, etf::SMALL_ATOM_LATIN1].contains(tag) => {
            (*arity, *length, rest)
        }
        [
            etf::VERSION,
            etf::SMALL_TUPLE,
            arity,
            tag,
            0,
            length,
            rest @ ..,
        ] if [etf::ATOM_UTF8, etf::ATOM_LATIN1].contains(tag) => (*arity, *length, rest),
        _ => return false,
    };
    let name = rest.get(..usize::from(length));
    OUTCOMES.iter().any(|(outcome, elements)| {
        name == Some(outcome.as_bytes()) && usize::from(arity) == *elements
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn an_answer_finds_who_waits_once() {
        let mut calls = Calls::new(3, 7);
        let (a, b) = (calls.enter('a').unwrap_or(0), calls.enter('b').unwrap_or(0));
        assert_eq!((shard_of(a), shard_of(b), calls.waiting()), (3, 3, 2));
        assert_eq!(
            (calls.take(a), calls.take(a), calls.waiting()),
            (Some('a'), None, 1)
        );
        let c = calls.enter('c').unwrap_or(0);
        assert_eq!((calls.take(a), calls.take(c)), (None, Some('c')));
        assert_eq!(calls.take(b ^ 1 << 56), None);
        assert_eq!(calls.drain().collect::<Vec<_>>(), ['b']);
        assert_eq!((calls.take(b), calls.waiting()), (None, 0));
    }

    #[test]
    fn a_number_that_was_never_given_finds_nobody() {
        let mut calls: Calls<()> = Calls::new(0, 0);
        for id in [0, u64::MAX, 1 << 32] {
            assert_eq!(calls.take(id), None);
        }
    }

    #[test]
    fn who_is_not_kept_makes_room() {
        let mut calls = Calls::new(0, 0);
        let ids: Vec<_> = (0..4).map(|n| calls.enter(n).unwrap_or(0)).collect();
        calls.retain(3, |n| n % 2 == 0);
        assert_eq!(calls.waiting(), 3);
        calls.retain(3, |n| n % 2 == 0);
        assert_eq!(calls.waiting(), 2);
        let taken: Vec<_> = ids.iter().map(|id| calls.take(*id)).collect();
        assert_eq!(taken, [Some(0), None, Some(2), None]);
    }

    #[test]
    fn a_full_table_gives_back_who_comes_and_takes_him_when_another_has_left() {
        let mut calls = Calls::with_room(63, u32::MAX, 2);
        let (a, b) = (calls.enter('a').unwrap_or(0), calls.enter('b').unwrap_or(0));
        assert_eq!((calls.enter('c'), calls.waiting()), (Err('c'), 2));
        assert_eq!(calls.take(a), Some('a'));
        let c = calls.enter('c').unwrap_or(0);
        assert_eq!((calls.enter('d'), calls.take(a)), (Err('d'), None));
        assert_eq!((calls.take(c), calls.take(b)), (Some('c'), Some('b')));
        assert_eq!((shard_of(a), shard_of(c), calls.waiting()), (63, 63, 0));
    }

    #[test]
    fn a_plain_answer_starts_with_how_the_body_ended() {
        for (name, elements) in OUTCOMES {
            for head in [
                vec![etf::SMALL_ATOM_UTF8, name.len() as u8],
                vec![etf::SMALL_ATOM_LATIN1, name.len() as u8],
                vec![etf::ATOM_UTF8, 0, name.len() as u8],
                vec![etf::ATOM_LATIN1, 0, name.len() as u8],
            ] {
                let plain = |elements: usize| {
                    let mut plain = vec![etf::VERSION, etf::SMALL_TUPLE, elements as u8];
                    plain.extend_from_slice(&head);
                    plain.extend_from_slice(name.as_bytes());
                    plain
                };
                assert!(starts_as_outcome(&plain(elements)), "{name}");
                assert!(!starts_as_outcome(&plain(elements + 1)), "{name}");
                for cut in 0..plain(elements).len() {
                    assert!(!starts_as_outcome(&plain(elements)[..cut]), "{name} {cut}");
                }
            }
        }
        for none in [
            &b"\x83j"[..],
            b"\x83h\x02w\x06retur",
            b"\x83h\x02w\x05other",
            b"\x83h\x02a\x06",
        ] {
            assert!(!starts_as_outcome(none));
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Enter,
        /// One of the numbers given so far.
        Answer(prop::sample::Index),
        /// A number that a peer makes up: somebody's slot, another use or shard of it.
        Forged(prop::sample::Index, u64),
        Sweep(usize),
        End,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let given = || any::<prop::sample::Index>();
        prop::collection::vec(
            prop_oneof![
                6 => Just(Step::Enter),
                4 => given().prop_map(Step::Answer),
                2 => (given(), 1u64..).prop_map(|(at, bits)| Step::Forged(at, bits)),
                1 => (2usize..5).prop_map(Step::Sweep),
                1 => Just(Step::End),
            ],
            0..120,
        )
    }

    proptest! {
        /// Whatever is answered, made up, swept out or ended: everybody is found once, by the number he was given.
        #[test]
        fn everybody_is_taken_out_once(shard in 0u8..64, first_use in any::<u32>(), steps in steps()) {
            let mut calls = Calls::with_room(shard, first_use, 16);
            let (mut given, mut waiting) = (Vec::new(), BTreeMap::new());
            for (who, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Enter => match calls.enter(who) {
                        Ok(id) => {
                            prop_assert!(!given.contains(&id));
                            prop_assert_eq!(shard_of(id), usize::from(shard));
                            given.push(id);
                            waiting.insert(id, who);
                        }
                        Err(back) => prop_assert_eq!((back, waiting.len()), (who, 16)),
                    },
                    Step::Answer(at) if !given.is_empty() => {
                        let id = *at.get(&given);
                        prop_assert_eq!(calls.take(id), waiting.remove(&id));
                    }
                    Step::Forged(at, bits) if !given.is_empty() => {
                        let id = at.get(&given) ^ bits;
                        prop_assert_eq!(calls.take(id), waiting.remove(&id));
                    }
                    Step::Answer(_) | Step::Forged(..) => prop_assert_eq!(calls.take(who as u64), None),
                    Step::Sweep(n) => {
                        calls.retain(usize::MAX, |who| !who.is_multiple_of(n));
                        waiting.retain(|_, who| !who.is_multiple_of(n));
                    }
                    Step::End => {
                        let mut left: Vec<_> = calls.drain().collect();
                        left.sort_unstable();
                        let mut expected: Vec<_> = std::mem::take(&mut waiting).into_values().collect();
                        expected.sort_unstable();
                        prop_assert_eq!(left, expected);
                    }
                }
                prop_assert_eq!(calls.waiting(), waiting.len());
            }
        }
    }
}
