//! All open slots of a lane, and which of them have something to do. Nobody looks at all of them to find the few: what a fact
//! costs does not grow with what is open (R01).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::id::TxId;
use crate::nonce::Nonce;
use crate::time::{Tick, Timestamp};

use super::lending::Lending;
use super::open_slot::{OpenSlot, Remedy, Sending};
use super::stuck::Deciding;

#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Boxed: a node of the tree has room for eleven, and is half empty where nonces only grow.
    slots: BTreeMap<Nonce, Box<OpenSlot>>,
    /// Those that the chain does not show, as far as anybody has looked.
    unmined: BTreeSet<Nonce>,
    /// When to send, and when to claim a resubmit.
    sends: BTreeSet<(Tick, Nonce)>,
    claims: BTreeSet<(Tick, Nonce)>,
    /// Those that need another attempt, or get one.
    remedial: BTreeSet<Nonce>,
    /// When they are past their time, by the database's clock.
    deadlines: BTreeSet<(Timestamp, Nonce)>,
    /// Those that came back from a caller without a transaction.
    recyclable: BTreeSet<Nonce>,
    /// Those that nodes say the account cannot pay for.
    short: BTreeSet<Nonce>,
    /// Those that somebody has to decide about.
    deciding: BTreeSet<Nonce>,
    /// Signed bytes of those that are unmined.
    unmined_bytes: usize,
    /// Those that are not final and not over.
    unsettled: usize,
    ids: HashMap<TxId, Nonce>,
}

/// Where a slot stands in the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    unmined: bool,
    send_at: Option<Tick>,
    claim_at: Option<Tick>,
    remedial: bool,
    deadline: Option<Timestamp>,
    recyclable: bool,
    short: bool,
    deciding: bool,
    bytes: usize,
    unsettled: bool,
}

impl Standing {
    fn of(slot: &OpenSlot) -> Self {
        let unmined = !slot.is_mined() && !slot.is_over();
        let (send_at, claim_at) = match slot.sending {
            Sending::Due { at, claim: false } if unmined => (Some(at), None),
            Sending::Due { at, claim: true } if unmined => (None, Some(at)),
            _ => (None, None),
        };
        let remedial = unmined && (slot.remedy != Remedy::None || slot.needs_another());
        let (deadline, recyclable) = (slot.deadline().filter(|_| unmined), unmined && slot.is_recyclable());
        let bytes = if unmined { slot.bytes() } else { 0 };
        let (short, unsettled) = (unmined && slot.short_of_funds, !slot.is_final() && !slot.is_over());
        let deciding = unmined && slot.decision != Deciding::Nothing;
        Standing { unmined, send_at, claim_at, remedial, deadline, recyclable, short, deciding, bytes, unsettled }
    }

    const NOWHERE: Standing = Standing {
        unmined: false,
        send_at: None,
        claim_at: None,
        remedial: false,
        deadline: None,
        recyclable: false,
        short: false,
        deciding: false,
        bytes: 0,
        unsettled: false,
    };
}

impl Slots {
    pub(super) fn insert(&mut self, slot: OpenSlot) {
        let nonce = slot.nonce;
        self.ids.extend(id_of(&slot).map(|id| (id, nonce)));
        let standing = Standing::of(&slot);
        let before = self.slots.insert(nonce, Box::new(slot)).map_or(Standing::NOWHERE, |old| Standing::of(&old));
        self.move_to(nonce, before, standing);
    }

    /// The only way to change one: it is in the right lists afterwards.
    pub(super) fn update<T>(&mut self, nonce: Nonce, change: impl FnOnce(&mut OpenSlot) -> T) -> Option<T> {
        let slot = self.slots.get_mut(&nonce)?;
        let (before, id_before) = (Standing::of(slot), id_of(slot));
        let answer = change(slot);
        let (after, id_after) = (Standing::of(slot), id_of(slot));
        // What is lent changes hands.
        if id_after != id_before {
            id_before.into_iter().for_each(|id| forget_id(&mut self.ids, id, nonce));
            id_after.map(|id| self.ids.insert(id, nonce));
        }
        if after != before {
            self.move_to(nonce, before, after);
        }
        Some(answer)
    }

    /// Its nonce is gone, and its intent, if there is one, is in line again or has failed.
    pub(super) fn lose(&mut self, nonce: Nonce) {
        self.update(nonce, |slot| {
            slot.lost = true;
            slot.sending = Sending::Rest;
            slot.remedy = Remedy::None;
            slot.lending = Lending::Ours;
            slot.tx = None;
        });
    }

    #[cfg(feature = "mistakes")]
    pub(super) fn remove(&mut self, nonce: Nonce) {
        if let Some(slot) = self.slots.remove(&nonce) {
            self.move_to(nonce, Standing::of(&slot), Standing::NOWHERE);
        }
    }

    /// Takes out all below this one.
    pub(super) fn close_below(&mut self, open: Nonce) -> BTreeMap<Nonce, Box<OpenSlot>> {
        let still_open = self.slots.split_off(&open);
        let closed = std::mem::replace(&mut self.slots, still_open);
        for slot in closed.values() {
            self.move_to(slot.nonce, Standing::of(slot), Standing::NOWHERE);
            id_of(slot).into_iter().for_each(|id| forget_id(&mut self.ids, id, slot.nonce));
        }
        closed
    }

    pub(super) fn get(&self, nonce: Nonce) -> Option<&OpenSlot> {
        self.slots.get(&nonce).map(Box::as_ref)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &OpenSlot> {
        self.slots.values().map(Box::as_ref)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn holds(&self, id: TxId) -> bool {
        self.ids.contains_key(&id)
    }

    /// The nonce that an intent has or had here.
    pub(super) fn find(&self, id: TxId) -> Option<Nonce> {
        self.ids.get(&id).copied()
    }

    pub(super) fn unmined(&self) -> &BTreeSet<Nonce> {
        &self.unmined
    }

    pub(super) fn unsettled(&self) -> usize {
        self.unsettled
    }

    pub(super) fn short(&self) -> &BTreeSet<Nonce> {
        &self.short
    }

    pub(super) fn deciding(&self) -> Vec<Nonce> {
        self.deciding.iter().copied().collect()
    }

    pub(super) fn unmined_bytes(&self) -> usize {
        self.unmined_bytes
    }

    /// Those that need another attempt, or get one, in order.
    pub(super) fn remedial(&self) -> Vec<Nonce> {
        self.remedial.iter().copied().collect()
    }

    /// Those to be sent by now, the lowest first.
    pub(super) fn to_send(&self, now: Tick) -> Vec<Nonce> {
        due(&self.sends, now)
    }

    /// Those whose resubmit is to be claimed by now, the lowest first.
    pub(super) fn to_claim(&self, now: Tick) -> Vec<Nonce> {
        due(&self.claims, now)
    }

    /// When the next one has to be sent or claimed, after now.
    pub(super) fn next_after(&self, now: Tick) -> Option<Tick> {
        let next = |list: &BTreeSet<(Tick, Nonce)>| list.range((after(now), Nonce::ZERO)..).next().map(|(at, _)| *at);
        [next(&self.sends), next(&self.claims)].into_iter().flatten().min()
    }

    /// Those that are past their time, the lowest first.
    pub(super) fn overdue(&self, database_now: Timestamp) -> Vec<Nonce> {
        let past = self.deadlines.iter().take_while(|(at, _)| *at <= database_now);
        let mut nonces: Vec<Nonce> = past.map(|(_, nonce)| *nonce).collect();
        nonces.sort_unstable();
        nonces
    }

    /// When the next one is, after now.
    pub(super) fn next_deadline(&self, database_now: Timestamp) -> Option<Timestamp> {
        self.deadlines.iter().map(|(at, _)| *at).find(|at| *at > database_now)
    }

    /// Those that came back from a caller without a transaction, the smallest first.
    pub(super) fn recyclable(&self) -> impl Iterator<Item = Nonce> {
        self.recyclable.iter().copied()
    }

    fn move_to(&mut self, nonce: Nonce, before: Standing, after: Standing) {
        put(&mut self.unmined, nonce, before.unmined, after.unmined);
        put(&mut self.remedial, nonce, before.remedial, after.remedial);
        put(&mut self.short, nonce, before.short, after.short);
        put(&mut self.deciding, nonce, before.deciding, after.deciding);
        self.unmined_bytes = self.unmined_bytes.saturating_sub(before.bytes).saturating_add(after.bytes);
        move_time(&mut self.sends, nonce, before.send_at, after.send_at);
        move_time(&mut self.claims, nonce, before.claim_at, after.claim_at);
        move_time(&mut self.deadlines, nonce, before.deadline, after.deadline);
        put(&mut self.recyclable, nonce, before.recyclable, after.recyclable);
        self.unsettled = self.unsettled.saturating_sub(usize::from(before.unsettled));
        self.unsettled = self.unsettled.saturating_add(usize::from(after.unsettled));
    }
}

/// Who holds it now; whoever has lost it may hold another.
fn id_of(slot: &OpenSlot) -> Option<TxId> {
    slot.tx.as_ref().map(|tx| tx.id)
}

fn forget_id(ids: &mut HashMap<TxId, Nonce>, id: TxId, nonce: Nonce) {
    if ids.get(&id) == Some(&nonce) {
        ids.remove(&id);
    }
}

fn put(list: &mut BTreeSet<Nonce>, nonce: Nonce, before: bool, after: bool) {
    match (before, after) {
        (false, true) => drop(list.insert(nonce)),
        (true, false) => drop(list.remove(&nonce)),
        _ => {}
    }
}

fn move_time<T: Copy + Ord>(list: &mut BTreeSet<(T, Nonce)>, nonce: Nonce, before: Option<T>, after: Option<T>) {
    if before != after {
        before.map(|at| list.remove(&(at, nonce)));
        after.map(|at| list.insert((at, nonce)));
    }
}

fn due(list: &BTreeSet<(Tick, Nonce)>, now: Tick) -> Vec<Nonce> {
    let mut nonces: Vec<Nonce> = list.range(..(after(now), Nonce::ZERO)).map(|(_, nonce)| *nonce).collect();
    nonces.sort_unstable();
    nonces
}

/// The first moment that is later.
fn after(now: Tick) -> Tick {
    now.saturating_add(std::time::Duration::from_nanos(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::{AttemptKind, NewAttempt};
    use crate::block::{BlockRef, Execution};
    use crate::lane::MinedTx;
    use crate::payload::Fees;
    use crate::reservation::LockOwner;
    use crate::slot::SlotKind;
    use crate::{Amount, B256, Bytes, Timestamp};
    use std::time::Duration;

    fn tick(seconds: u64) -> Tick {
        Tick::since_start(Duration::from_secs(seconds))
    }

    fn slot(nonce: u64) -> OpenSlot {
        let mut slot = OpenSlot::empty(Nonce::new(nonce).unwrap(), SlotKind::Reservation);
        let attempt = NewAttempt {
            nonce: slot.nonce,
            ordinal: 0,
            kind: AttemptKind::Fill,
            hash: B256::with_last_byte(nonce as u8),
            raw: Bytes::from(vec![0; nonce as usize]),
            fees: Fees::Legacy { gas_price: 1 },
        };
        slot.hold(&attempt, Amount::ZERO, 21_000, Timestamp::EPOCH);
        slot
    }

    fn mined(nonce: u64) -> MinedTx {
        MinedTx {
            hash: B256::with_last_byte(nonce as u8),
            block: BlockRef { number: 7, hash: B256::ZERO },
            parent_hash: B256::ZERO,
            execution: Execution::Success,
            gas_used: 1,
            effective_gas_price: Amount::ZERO,
        }
    }

    /// However slots are changed, the lists are what one would find by looking at all of them.
    #[test]
    fn the_lists_are_always_those_of_the_slots() {
        let mut slots = Slots::default();
        (0..40).for_each(|nonce| slots.insert(slot(nonce)));
        let mut random = 1_u64;
        let mut dice = |sides: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % sides
        };
        let mut lowest = 0;
        for _ in 0..5000 {
            let (nonce, what, at) = (Nonce::new(dice(40)).unwrap(), dice(14), tick(dice(50)));
            let until = Timestamp::EPOCH.saturating_add(at.elapsed());
            slots.update(nonce, |slot| match what {
                0 => slot.sending = Sending::Rest,
                1 => slot.sending = Sending::Due { at, claim: false },
                2 => slot.sending = Sending::Due { at, claim: true },
                3 => slot.sending = Sending::UnderWay,
                4 => slot.remedy = Remedy::Later(at),
                5 => slot.remedy = Remedy::None,
                6 => drop(slot.mined(mined(nonce.get()))),
                7 => slot.lending = Lending::Lent { to: LockOwner::new("me").unwrap(), until },
                8 => slot.lending = Lending::Recyclable,
                9 => slot.lending = Lending::Ours,
                10 => slot.short_of_funds = !slot.short_of_funds,
                11 => slot.decision = Deciding::Ask(at),
                12 => slot.decision = Deciding::Nothing,
                _ => drop(slot.unmined(mined(nonce.get()).hash, mined(0).block, at)),
            });
            if dice(500) == 0 {
                lowest += 1;
                slots.close_below(Nonce::new(lowest).unwrap());
            }
            check(&slots, tick(25));
        }
        assert!(lowest > 2);
    }

    fn check(slots: &Slots, now: Tick) {
        let of = |test: &dyn Fn(&OpenSlot) -> bool| -> Vec<Nonce> {
            slots.iter().filter(|slot| !slot.is_mined() && test(slot)).map(|slot| slot.nonce).collect()
        };
        assert_eq!(slots.unmined().iter().copied().collect::<Vec<_>>(), of(&|_| true));
        assert_eq!(slots.unsettled(), slots.iter().filter(|slot| !slot.is_final()).count());
        let due =
            |slot: &OpenSlot, of: bool| matches!(slot.sending, Sending::Due { at, claim } if at <= now && claim == of);
        assert_eq!(slots.to_send(now), of(&|slot| due(slot, false)));
        assert_eq!(slots.to_claim(now), of(&|slot| due(slot, true)));
        let database_now = Timestamp::EPOCH.saturating_add(now.elapsed());
        let overdue = |slot: &OpenSlot| slot.deadline().is_some_and(|at| at <= database_now);
        assert_eq!(slots.overdue(database_now), of(&overdue));
        let unmined = slots.iter().filter(|slot| !slot.is_mined());
        let later = unmined.filter_map(OpenSlot::deadline).filter(|at| *at > database_now);
        assert_eq!(slots.next_deadline(database_now), later.min());
        assert_eq!(slots.recyclable().collect::<Vec<_>>(), of(&OpenSlot::is_recyclable));
        assert_eq!(slots.remedial(), of(&|slot| slot.remedy != Remedy::None || slot.needs_another()));
        assert_eq!(slots.deciding(), of(&|slot| slot.decision != Deciding::Nothing));
        assert_eq!(slots.short().iter().copied().collect::<Vec<_>>(), of(&|slot| slot.short_of_funds));
        let bytes = slots.iter().filter(|slot| !slot.is_mined()).map(OpenSlot::bytes).sum::<usize>();
        assert_eq!(slots.unmined_bytes(), bytes);
        let later = slots.iter().filter(|slot| !slot.is_mined()).filter_map(|slot| match slot.sending {
            Sending::Due { at, .. } if at > now => Some(at),
            _ => None,
        });
        assert_eq!(slots.next_after(now), later.min());
    }
}
