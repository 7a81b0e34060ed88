//! What must hold, whatever happens.

use std::collections::{BTreeMap, HashMap};

use gapless_domain::{
    B256, Bytes, Cancellation, EventKind, FailReason, FinalFailure, IntentRecord, LaneCommit, LaneSetup, LaneState,
    Outgoing, ReleaseRule, Settled, SlotKind, TransitionName, TxId, TxState,
};

use crate::chain::{Chain, Tx, reverts};
use crate::owner::{Owner, Told};

/// The ledger once more, from the commits that were done.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    durable: HashMap<B256, (u64, Bytes)>,
    slots: BTreeMap<u64, Holder>,
    /// Below it, every slot is closed.
    closed: u64,
    ends: HashMap<TxId, TxState>,
    /// By number, from 1.
    intents: Vec<TxId>,
    next: u64,
}

/// Whose a nonce is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Intent(TxId),
    /// It was this intent's, and something else has used it.
    Lost,
    /// Lent, to one after another.
    Lent,
    Stranger,
}

impl Checks {
    pub(crate) fn accepted(&mut self, id: TxId) {
        self.intents.push(id);
    }

    pub(crate) fn number_of(&self, id: TxId) -> u64 {
        self.intents.iter().position(|other| *other == id).unwrap() as u64 + 1
    }

    pub(crate) fn all_ended(&self) -> bool {
        self.intents.iter().all(|id| self.ends.contains_key(id))
    }

    /// Canceled by its caller, in the queue.
    pub(crate) fn canceled(&mut self, id: TxId, state: TxState) {
        assert!(!self.slots.values().any(|held| *held == Holder::Intent(id)), "{id} had a nonce");
        assert_eq!(self.ends.insert(id, state), None);
    }

    /// Before it is sent, it is looked out for.
    pub(crate) fn wants_sent(&self, outgoing: &[Outgoing], owner: &Owner) {
        self.sends(outgoing);
        for out in outgoing {
            assert!(owner.watches(out.tx.hash), "{} is sent and not watched", out.nonce);
        }
    }

    /// P3: every byte was durable before.
    pub(crate) fn sends(&self, outgoing: &[Outgoing]) {
        for out in outgoing {
            let durable = self.durable.get(&out.tx.hash);
            assert_eq!(durable, Some(&(out.nonce.get(), out.tx.raw.clone())), "{} is sent and not durable", out.nonce);
        }
        let in_order = outgoing.windows(2).all(|pair| pair[0].nonce < pair[1].nonce);
        assert!(in_order, "lowest nonce first");
    }

    /// What an owner that is not late wants to write, by what it was told.
    pub(crate) fn wants(&self, commit: &LaneCommit, owner: &Owner, setup: &LaneSetup, chain: &Chain) {
        if owner.stalled {
            return;
        }
        self.check_window(commit, owner, setup, chain);
        for change in commit.changes() {
            if let TxState::FailedFinal(FinalFailure::Unbound(FailReason::SimulationReverted, _)) = change.to() {
                self.check_revert(self.number_of(change.tx_id()), commit, owner);
            }
        }
    }

    /// S19: everything before it in line has run, or never will.
    fn check_revert(&self, number: u64, commit: &LaneCommit, owner: &Owner) {
        let ends_now = |id: TxId| {
            let mut changes = commit.changes().iter();
            changes.any(|change| change.tx_id() == id && change.to().name().is_terminal())
        };
        let open = |id: &&TxId| !self.ends.contains_key(*id) && !ends_now(**id);
        let before = self.intents.iter().take(number as usize - 1).filter(open);
        for id in before {
            let nonce = self.slots.iter().find(|(_, held)| **held == Holder::Intent(*id)).map(|(nonce, _)| *nonce);
            let has_run = nonce.is_none_or(|nonce| self.told_of(nonce, owner).count() > 0);
            assert!(has_run, "{number} is to fail, and {} has not run", self.number_of(*id));
        }
    }

    fn told_of(&self, nonce: u64, owner: &Owner) -> impl Iterator<Item = Told> {
        let is_its = move |hash: &B256| self.durable.get(hash).is_some_and(|(at, _)| *at == nonce);
        owner.told.iter().filter(move |(hash, _)| is_its(hash)).map(|(_, told)| *told)
    }

    /// N12, N13: what the owner was told decides how many it may bind.
    fn check_window(&self, commit: &LaneCommit, owner: &Owner, setup: &LaneSetup, chain: &Chain) {
        if commit.slots().is_empty() {
            return;
        }
        let counts = |told: Told| setup.policy.nonce.release == ReleaseRule::Mined || told.is_final;
        let consumed = |nonce: u64| self.told_of(nonce, owner).any(counts);
        let is_open = |nonce: u64, holder: &Holder| match holder {
            Holder::Intent(id) => !self.ends.contains_key(id),
            // What a stranger has used in a borrower's place is over as well.
            Holder::Lent => !chain.final_use(nonce).is_some_and(Tx::is_strange),
            Holder::Lost | Holder::Stranger => false,
        };
        let open = self.slots.range(self.closed..).filter(|(nonce, holder)| is_open(**nonce, holder));
        let unconsumed: Vec<u64> = open.map(|(nonce, _)| *nonce).filter(|nonce| !consumed(*nonce)).collect();
        let window = usize::from(setup.policy.nonce.max_in_flight);
        // What the chain has already was not bound, but found.
        let found = |nonce: u64| chain.final_use(nonce).is_some();
        let bound = commit.slots().iter().filter(|slot| !found(slot.nonce.get())).count();
        if bound == 0 {
            return;
        }
        assert!(unconsumed.len() + bound <= window, "{bound} more are bound over {unconsumed:?} of {window}");
    }

    /// A commit that is durable now.
    pub(crate) fn done(&mut self, commit: &LaneCommit, chain: &Chain) {
        if let (true, Some(first)) = (self.slots.is_empty(), commit.slots().first()) {
            // It begins behind whatever strangers did before.
            self.next = first.nonce.get();
            assert!((0..self.next).all(|nonce| chain.final_use(nonce).is_some_and(Tx::is_strange)));
        }
        for slot in commit.slots() {
            assert_eq!(slot.nonce.get(), self.next, "bound nonces are contiguous");
            let holder = match slot.kind {
                SlotKind::Intent(id) => Holder::Intent(id),
                SlotKind::Reservation => Holder::Lent,
                SlotKind::Foreign => {
                    let used = chain.final_use(self.next);
                    assert!(used.is_some_and(Tx::is_strange), "{used:?} is adopted");
                    Holder::Stranger
                }
            };
            self.slots.insert(self.next, holder);
            self.next += 1;
        }
        self.lose(commit, chain);
        for (number, id) in self.intents.iter().enumerate() {
            let held = self.slots.values().filter(|held| **held == Holder::Intent(*id)).count();
            assert!(held <= 1, "{} has two nonces", number + 1);
        }
        self.closed = commit.cursor().map_or(self.closed, |change| change.to().open_nonce.get());
        for attempt in commit.attempts() {
            let nonce = attempt.nonce.get();
            assert!(self.slots.contains_key(&nonce), "an attempt without a slot");
            self.durable.insert(attempt.hash, (nonce, attempt.raw.clone()));
        }
        for change in commit.changes() {
            let (id, to) = (change.tx_id(), change.to());
            assert!(!self.ends.contains_key(&id), "{id} had ended");
            if let Some(nonce) = to.nonce() {
                let holder = self.slots[&nonce.get()];
                let was_lost = holder == Holder::Lost && to.bound().is_some();
                let fits = holder == Holder::Intent(id) || holder == Holder::Lent || was_lost;
                assert!(fits, "{id} has another's nonce: {holder:?}");
            }
            if to.name().is_terminal() {
                self.check_end(id, to, chain);
                self.ends.insert(id, to.clone());
            }
        }
        if let Some(LaneState::Protect(protection)) = commit.cursor().map(|change| &change.to().state) {
            panic!("PROTECT in a world without strangers: {protection:?}");
        }
    }

    /// P4: an intent's nonce goes only when something else has used it, finally.
    fn lose(&mut self, commit: &LaneCommit, chain: &Chain) {
        for change in commit.changes() {
            if change.event() != EventKind::Tx(TransitionName::LoseNonce) {
                continue;
            }
            let id = change.tx_id();
            let bound_now = commit.slots().iter().map(|slot| slot.nonce.get()).collect::<Vec<_>>();
            let held =
                |(nonce, holder): &(&u64, &mut Holder)| **holder == Holder::Intent(id) && !bound_now.contains(nonce);
            let Some((nonce, holder)) = self.slots.iter_mut().find(held) else { continue };
            *holder = Holder::Lost;
            let used = chain.final_use(*nonce).unwrap_or_else(|| panic!("{id} loses {nonce}, which is free"));
            let ours = self.durable.get(&used.hash).is_some_and(|(at, _)| at == nonce) && !used.is_strange();
            assert!(!ours, "{id} loses {nonce}, and has used it itself");
        }
    }

    fn check_end(&self, id: TxId, state: &TxState, chain: &Chain) {
        let number = self.number_of(id);
        match state {
            TxState::Confirmed(settled) => self.check_settled(settled, number, chain, Some(false)),
            TxState::FailedFinal(FinalFailure::Reverted(settled)) => {
                self.check_settled(settled, number, chain, Some(true))
            }
            TxState::Canceled(Cancellation::OnChain(_, settled)) => self.check_settled(settled, number, chain, None),
            TxState::FailedFinal(FinalFailure::Unbound(FailReason::SimulationReverted, _)) => {
                assert!(needs_previous(number), "{number} reverts for no reason");
            }
            TxState::FailedFinal(FinalFailure::Unbound(FailReason::InvalidPayload, _)) => assert!(is_invalid(number)),
            TxState::Canceled(Cancellation::InQueue(_) | Cancellation::Released) => {}
            other => panic!("{number} ended as {other:?}"),
        }
    }

    /// `reverted`: what became of its payload; none if it is not the payload that was mined.
    fn check_settled(&self, settled: &Settled, number: u64, chain: &Chain, reverted: Option<bool>) {
        let Settled { nonce, inclusion } = settled;
        let Some((block, tx)) = chain.find(inclusion.hash) else {
            panic!("{number} ended by what is not on the chain")
        };
        assert_eq!((block, tx.nonce), (inclusion.block, nonce.get()));
        assert!(block.number <= chain.final_number(), "{number} ended before it was final");
        assert_eq!(tx.kind.carries_payload(), reverted.is_some());
        // Whatever stands at a nonce that was lent is taken for the last borrower's: who has signed it there, nobody can tell.
        let is_lent = self.slots[&nonce.get()] == Holder::Lent;
        if let Some(reverted) = reverted.filter(|_| !is_lent) {
            assert_eq!((tx.intent, reverts(tx.intent)), (number, reverted));
        }
    }

    /// When all is calm: everything ended, as the chain says, without a gap, in the order of acceptance.
    pub(crate) fn end(&self, chain: &Chain, rows: &[IntentRecord]) {
        let mined: Vec<_> = chain.blocks.iter().flat_map(|block| &block.txs).collect();
        assert!(mined.len() as u64 >= self.next, "every bound nonce is consumed");
        let mut effects = HashMap::new();
        for (nonce, tx) in mined.iter().enumerate() {
            assert_eq!(tx.nonce, nonce as u64);
            assert!(self.durable.contains_key(&tx.hash) || tx.is_strange());
            if tx.kind.carries_payload() && !tx.is_strange() {
                let before = effects.insert(tx.intent, nonce);
                assert_eq!(before, None, "{} took effect twice", tx.intent);
            }
        }
        let in_order: Vec<u64> = self
            .slots
            .values()
            .filter_map(|holder| match holder {
                Holder::Intent(id) => Some(self.number_of(*id)),
                _ => None,
            })
            .collect();
        let moved = self.slots.values().any(|holder| *holder == Holder::Lost);
        assert!(moved || in_order.is_sorted(), "nonces follow acceptance: {in_order:?}");
        for row in rows {
            assert_eq!(self.ends.get(&row.id), Some(&row.state), "an end never changes");
            if !matches!(row.state, TxState::Canceled(Cancellation::InQueue(_))) {
                self.check_end(row.id, &row.state, chain);
            }
        }
        assert_eq!(rows.len(), self.intents.len());
    }
}

/// Every fifth intent reverts in simulation until the one before it has gone through.
pub(crate) fn needs_previous(number: u64) -> bool {
    number.is_multiple_of(5)
}

/// Every thirteenth is one that no chain would take.
pub(crate) fn is_invalid(number: u64) -> bool {
    number % 13 == 3
}

/// Every eleventh is refused by the nodes that we talk to.
pub(crate) fn is_refused(number: u64) -> bool {
    number.is_multiple_of(11)
}
