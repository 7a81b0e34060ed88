//! The open slots of a lane, with indexes of the slots that need work. The cost of a fact does not grow with the number
//! of open slots (R01).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::id::TxId;
use crate::nonce::Nonce;
use crate::time::{Tick, Timestamp};

use super::decide::stuck::DecisionState;
use super::open_slot::OpenSlot;
use super::reservations::SlotReservation;
use super::slot_work::{AttemptStep, MiningState, Sending};

/// Open slots by nonce, with their indexes. All changes go through [`Slots::update`], which keeps the indexes correct.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Boxed, because a node of the tree has room for eleven values and is half empty where nonces only grow.
    slots: BTreeMap<Nonce, Box<OpenSlot>>,
    /// Lists of slots, by [`SlotList`].
    lists: [BTreeSet<Nonce>; SlotList::ALL.len()],
    /// Send times of slots.
    sends: BTreeSet<(Tick, Nonce)>,
    /// Times at which a resend is to be claimed.
    claims: BTreeSet<(Tick, Nonce)>,
    /// Deadlines of slots, by the database's clock.
    deadlines: BTreeSet<(Timestamp, Nonce)>,
    /// Total of signed bytes of the unmined slots.
    unmined_bytes: usize,
    ids: HashMap<TxId, Nonce>,
}

/// A list of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotList {
    /// Not known to be mined, and not ended.
    Unmined,
    /// Neither final nor ended.
    Unsettled,
    /// The ledger says something else about the intent than the chain and the nodes do.
    Changed,
    /// Needs another attempt, or gets one.
    NeedingAttempt,
    /// The reservation ended without a transaction.
    Recyclable,
    /// The account cannot pay for the slot, as nodes report.
    Short,
    /// Waits for a decision.
    Deciding,
}

impl SlotList {
    const ALL: [SlotList; 7] = [
        SlotList::Unmined,
        SlotList::Unsettled,
        SlotList::Changed,
        SlotList::NeedingAttempt,
        SlotList::Recyclable,
        SlotList::Short,
        SlotList::Deciding,
    ];

    /// True if the slot belongs to the list. `unmined` says so for the list of that name.
    fn has(self, slot: &OpenSlot, unmined: bool) -> bool {
        match self {
            SlotList::Unmined => unmined,
            SlotList::Unsettled => !slot.is_final() && !slot.is_ended(),
            SlotList::Changed => slot.has_due_transition(),
            SlotList::NeedingAttempt => unmined && (slot.next.step != AttemptStep::None || slot.needs_attempt()),
            SlotList::Recyclable => unmined && slot.is_recyclable(),
            SlotList::Short => unmined && slot.sends.refusals.short_of_funds,
            SlotList::Deciding => unmined && slot.resends.decision != DecisionState::None,
        }
    }
}

/// Index entries of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SlotIndexKeys {
    lists: [bool; SlotList::ALL.len()],
    send_at: Option<Tick>,
    claim_at: Option<Tick>,
    deadline: Option<Timestamp>,
    bytes: usize,
}

impl SlotIndexKeys {
    fn of(slot: &OpenSlot) -> Self {
        let unmined = !slot.is_mined() && !slot.is_ended();
        let lists = SlotList::ALL.map(|list| list.has(slot, unmined));
        if !unmined {
            return SlotIndexKeys { lists, ..SlotIndexKeys::default() };
        }
        let (send_at, claim_at) = match slot.sends.next {
            Sending::Send { at } => (Some(at), None),
            Sending::Claim { at, .. } => (None, Some(at)),
            Sending::Idle | Sending::Claiming { .. } | Sending::InFlight => (None, None),
        };
        SlotIndexKeys { lists, send_at, claim_at, deadline: slot.deadline(), bytes: slot.bytes() }
    }
}

impl Slots {
    pub(super) fn insert(&mut self, slot: OpenSlot) {
        let nonce = slot.nonce;
        self.ids.extend(id_of(&slot).map(|id| (id, nonce)));
        let after = SlotIndexKeys::of(&slot);
        let before =
            self.slots.insert(nonce, Box::new(slot)).map_or(SlotIndexKeys::default(), |old| SlotIndexKeys::of(&old));
        self.move_to(nonce, before, after);
    }

    /// Changes a slot and moves it to the right indexes. This is the only way to change a slot.
    pub(super) fn update<T>(&mut self, nonce: Nonce, change: impl FnOnce(&mut OpenSlot) -> T) -> Option<T> {
        let slot = self.slots.get_mut(&nonce)?;
        let (before, id_before) = (SlotIndexKeys::of(slot), id_of(slot));
        let answer = change(slot);
        let (after, id_after) = (SlotIndexKeys::of(slot), id_of(slot));
        // A reserved nonce changes its intent.
        if id_after != id_before {
            id_before.into_iter().for_each(|id| forget_id(&mut self.ids, id, nonce));
            id_after.map(|id| self.ids.insert(id, nonce));
        }
        if after != before {
            self.move_to(nonce, before, after);
        }
        Some(answer)
    }

    /// Marks a nonce as lost. Its intent, if there is one, is queued again or has failed.
    pub(super) fn lose(&mut self, nonce: Nonce) {
        self.update(nonce, |slot| {
            slot.mining = MiningState::Lost;
            slot.sends.next = Sending::Idle;
            slot.next.step = AttemptStep::None;
            slot.reservation = SlotReservation::NotReserved;
            slot.tx = None;
        });
    }

    /// Removes all slots below `open`.
    pub(super) fn close_below(&mut self, open: Nonce) -> BTreeMap<Nonce, Box<OpenSlot>> {
        let still_open = self.slots.split_off(&open);
        let closed = std::mem::replace(&mut self.slots, still_open);
        for slot in closed.values() {
            self.move_to(slot.nonce, SlotIndexKeys::of(slot), SlotIndexKeys::default());
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

    fn list(&self, list: SlotList) -> &BTreeSet<Nonce> {
        let [unmined, unsettled, changed, needing_attempt, recyclable, short, deciding] = &self.lists;
        match list {
            SlotList::Unmined => unmined,
            SlotList::Unsettled => unsettled,
            SlotList::Changed => changed,
            SlotList::NeedingAttempt => needing_attempt,
            SlotList::Recyclable => recyclable,
            SlotList::Short => short,
            SlotList::Deciding => deciding,
        }
    }

    /// Slots that are not known to be mined.
    pub(super) fn unmined(&self) -> &BTreeSet<Nonce> {
        self.list(SlotList::Unmined)
    }

    /// Number of slots that are neither final nor ended.
    pub(super) fn unsettled(&self) -> usize {
        self.list(SlotList::Unsettled).len()
    }

    /// Slots whose intent in the ledger differs from the chain and the nodes, lowest first.
    pub(super) fn changed(&self) -> Vec<Nonce> {
        self.list(SlotList::Changed).iter().copied().collect()
    }

    /// Slots that the account cannot pay for, as nodes report.
    pub(super) fn short(&self) -> &BTreeSet<Nonce> {
        self.list(SlotList::Short)
    }

    /// Slots that wait for a decision, lowest first.
    pub(super) fn deciding(&self) -> Vec<Nonce> {
        self.list(SlotList::Deciding).iter().copied().collect()
    }

    pub(super) fn unmined_bytes(&self) -> usize {
        self.unmined_bytes
    }

    /// Slots that need another attempt, or get one, in order.
    pub(super) fn needing_attempt(&self) -> Vec<Nonce> {
        self.list(SlotList::NeedingAttempt).iter().copied().collect()
    }

    /// Slots that are due to be sent, lowest first.
    pub(super) fn to_send(&self, now: Tick) -> Vec<Nonce> {
        due(&self.sends, now)
    }

    /// Slots whose resend is due to be claimed, lowest first.
    pub(super) fn to_claim(&self, now: Tick) -> Vec<Nonce> {
        due(&self.claims, now)
    }

    /// The next time after `now` at which a slot is due to be sent or claimed.
    pub(super) fn next_after(&self, now: Tick) -> Option<Tick> {
        let next = |list: &BTreeSet<(Tick, Nonce)>| list.range((after(now), Nonce::ZERO)..).next().map(|(at, _)| *at);
        [next(&self.sends), next(&self.claims)].into_iter().flatten().min()
    }

    /// Slots past their deadline, lowest first.
    pub(super) fn overdue(&self, database_now: Timestamp) -> Vec<Nonce> {
        let past = self.deadlines.iter().take_while(|(at, _)| *at <= database_now);
        let mut nonces: Vec<Nonce> = past.map(|(_, nonce)| *nonce).collect();
        nonces.sort_unstable();
        nonces
    }

    /// The next deadline after now.
    pub(super) fn next_deadline(&self, database_now: Timestamp) -> Option<Timestamp> {
        self.deadlines.iter().map(|(at, _)| *at).find(|at| *at > database_now)
    }

    /// Slots whose reservation ended without a transaction, lowest first.
    pub(super) fn recyclable(&self) -> impl Iterator<Item = Nonce> {
        self.list(SlotList::Recyclable).iter().copied()
    }

    fn move_to(&mut self, nonce: Nonce, before: SlotIndexKeys, after: SlotIndexKeys) {
        for (list, (before, after)) in self.lists.iter_mut().zip(before.lists.into_iter().zip(after.lists)) {
            put(list, nonce, before, after);
        }
        self.unmined_bytes = self.unmined_bytes.saturating_sub(before.bytes).saturating_add(after.bytes);
        move_time(&mut self.sends, nonce, before.send_at, after.send_at);
        move_time(&mut self.claims, nonce, before.claim_at, after.claim_at);
        move_time(&mut self.deadlines, nonce, before.deadline, after.deadline);
    }
}

/// The intent that holds the slot now. An intent that lost this nonce may hold another one.
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

/// The first tick after `now`.
fn after(now: Tick) -> Tick {
    now.saturating_add(std::time::Duration::from_nanos(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Fees, Work};
    use crate::attempt::{AttemptKind, NewAttempt};
    use crate::block::{BlockRef, Execution};
    use crate::intent_record::IntentRecord;
    use crate::lane::MinedTx;
    use crate::lane::draft::{AttemptOrigin, AttemptSource};
    use crate::ledger::fixtures::{ACCOUNT, queued};
    use crate::reservation::LockOwner;
    use crate::slot::SlotKind;
    use crate::transition::Transition;
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
            fees: Fees::flat(1),
        };
        let origin = AttemptOrigin { source: AttemptSource::Signed, cost: Amount::ZERO, work: Work::new(21_000) };
        slot.add_attempt(&attempt, &origin, Timestamp::EPOCH);
        // Every second slot has an intent.
        if nonce % 2 == 1 {
            let queued = queued(ACCOUNT, nonce);
            let state = queued.state.apply(Transition::Bind(slot.nonce)).unwrap();
            slot.tx = Some(Box::new(IntentRecord { state, ..queued }));
        }
        slot
    }

    fn mined(nonce: u64) -> MinedTx {
        MinedTx {
            hash: B256::with_last_byte(nonce as u8),
            block: BlockRef { number: 7, hash: B256::ZERO },
            parent_hash: B256::ZERO,
            execution: Execution::Success,
            work_used: 1,
            unit_price: Amount::ZERO,
        }
    }

    /// After any change of a slot, the indexes equal a full search of all slots.
    #[test]
    fn slot_indexes_after_any_change_match_a_full_search() {
        let mut slots = Slots::default();
        (0..40).for_each(|nonce| slots.insert(slot(nonce)));
        let mut random = 1_u64;
        let mut dice = |sides: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % sides
        };
        let (mut lowest, mut changed) = (0, 0);
        for _ in 0..5000 {
            let (nonce, what, at) = (Nonce::new(dice(40)).unwrap(), dice(14), tick(dice(50)));
            let until = Timestamp::EPOCH.saturating_add(at.elapsed());
            slots.update(nonce, |slot| match what {
                0 => slot.sends.next = Sending::Idle,
                1 => slot.sends.next = Sending::Send { at },
                2 => slot.sends.next = Sending::claim(at),
                3 => slot.sends.next = Sending::InFlight,
                4 => slot.next.step = AttemptStep::Later(at),
                5 => slot.next.step = AttemptStep::None,
                6 => drop(slot.mined(mined(nonce.get()))),
                7 => slot.reservation = SlotReservation::Reserved { to: LockOwner::new("me").unwrap(), until },
                8 => slot.reservation = SlotReservation::Recyclable,
                9 => slot.reservation = SlotReservation::NotReserved,
                10 => slot.sends.refusals.short_of_funds = !slot.sends.refusals.short_of_funds,
                11 => slot.resends.decision = DecisionState::AskAt(at),
                12 => slot.resends.decision = DecisionState::None,
                _ => drop(slot.unmined(mined(nonce.get()).hash, mined(0).block, at)),
            });
            if dice(500) == 0 {
                lowest += 1;
                slots.close_below(Nonce::new(lowest).unwrap());
            }
            check(&slots, tick(25));
            changed += slots.changed().len();
        }
        assert!(lowest > 2 && changed > 1000, "{lowest} {changed}");
    }

    fn check(slots: &Slots, now: Tick) {
        let of = |test: &dyn Fn(&OpenSlot) -> bool| -> Vec<Nonce> {
            slots.iter().filter(|slot| !slot.is_mined() && test(slot)).map(|slot| slot.nonce).collect()
        };
        assert_eq!(slots.unmined().iter().copied().collect::<Vec<_>>(), of(&|_| true));
        assert_eq!(slots.unsettled(), slots.iter().filter(|slot| !slot.is_final()).count());
        let due = |slot: &OpenSlot| matches!(slot.sends.next, Sending::Send { at } if at <= now);
        assert_eq!(slots.to_send(now), of(&due));
        let due = |slot: &OpenSlot| matches!(slot.sends.next, Sending::Claim { at, .. } if at <= now);
        assert_eq!(slots.to_claim(now), of(&due));
        let database_now = Timestamp::EPOCH.saturating_add(now.elapsed());
        let overdue = |slot: &OpenSlot| slot.deadline().is_some_and(|at| at <= database_now);
        assert_eq!(slots.overdue(database_now), of(&overdue));
        let unmined = slots.iter().filter(|slot| !slot.is_mined());
        let later = unmined.filter_map(OpenSlot::deadline).filter(|at| *at > database_now);
        assert_eq!(slots.next_deadline(database_now), later.min());
        assert_eq!(slots.recyclable().collect::<Vec<_>>(), of(&OpenSlot::is_recyclable));
        assert_eq!(slots.needing_attempt(), of(&|slot| slot.next.step != AttemptStep::None || slot.needs_attempt()));
        let changed = slots.iter().filter(|slot| slot.has_due_transition()).map(|slot| slot.nonce);
        assert_eq!(slots.changed(), changed.collect::<Vec<_>>());
        assert_eq!(slots.deciding(), of(&|slot| slot.resends.decision != DecisionState::None));
        assert_eq!(slots.short().iter().copied().collect::<Vec<_>>(), of(&|slot| slot.sends.refusals.short_of_funds));
        let bytes = slots.iter().filter(|slot| !slot.is_mined()).map(OpenSlot::bytes).sum::<usize>();
        assert_eq!(slots.unmined_bytes(), bytes);
        let later = slots.iter().filter(|slot| !slot.is_mined()).filter_map(|slot| match slot.sends.next {
            Sending::Send { at } | Sending::Claim { at, .. } if at > now => Some(at),
            _ => None,
        });
        assert_eq!(slots.next_after(now), later.min());
    }
}
