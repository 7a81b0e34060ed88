//! What must hold, whatever happens.

use std::collections::{BTreeMap, HashMap};

use gapless_domain::{
    B256, Bytes, Cancellation, FailReason, Failure, LaneCommit, LaneSetup, LaneState, ManagedTx, Outgoing, ReleaseRule,
    Settled, SlotKind, TxId, TxState,
};

use crate::chain::{Chain, reverts};
use crate::owner::{Owner, Told};

/// The ledger once more, from the commits that were done.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    durable: HashMap<B256, (u64, Bytes)>,
    slots: BTreeMap<u64, TxId>,
    ends: HashMap<TxId, TxState>,
    /// By number, from 1.
    intents: Vec<TxId>,
    next: u64,
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
        assert!(!self.slots.values().any(|held| *held == id), "{id} had a nonce");
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
    pub(crate) fn wants(&self, commit: &LaneCommit, owner: &Owner, setup: &LaneSetup) {
        if owner.stalled {
            return;
        }
        self.check_window(commit, owner, setup);
        for change in commit.changes() {
            if let TxState::FailedFinal(Failure::Unbound(FailReason::SimulationReverted, _)) = change.to() {
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
            let nonce = self.slots.iter().find(|(_, held)| *held == id).map(|(nonce, _)| *nonce);
            let has_run = nonce.is_some_and(|nonce| self.told_of(nonce, owner).count() > 0);
            assert!(has_run, "{number} is to fail, and {} has not run", self.number_of(*id));
        }
    }

    fn told_of(&self, nonce: u64, owner: &Owner) -> impl Iterator<Item = Told> {
        let is_its = move |hash: &B256| self.durable.get(hash).is_some_and(|(at, _)| *at == nonce);
        owner.told.iter().filter(move |(hash, _)| is_its(hash)).map(|(_, told)| *told)
    }

    /// N12, N13: what the owner was told decides how many it may bind.
    fn check_window(&self, commit: &LaneCommit, owner: &Owner, setup: &LaneSetup) {
        if commit.slots().is_empty() {
            return;
        }
        let counts = |told: Told| setup.policy.nonce.release == ReleaseRule::Mined || told.is_final;
        let consumed = |nonce: u64| self.told_of(nonce, owner).any(counts);
        let open = self.slots.iter().filter(|(_, id)| !self.ends.contains_key(*id));
        let unconsumed = open.filter(|(nonce, _)| !consumed(**nonce)).count();
        let window = usize::from(setup.policy.nonce.max_in_flight);
        let bound = commit.slots().len();
        assert!(unconsumed + bound <= window, "{bound} more are bound over {unconsumed} of {window}");
    }

    /// A commit that is durable now.
    pub(crate) fn done(&mut self, commit: &LaneCommit, chain: &Chain) {
        for slot in commit.slots() {
            assert_eq!(slot.nonce.get(), self.next, "bound nonces are contiguous");
            let SlotKind::Intent(id) = slot.kind else { panic!("{slot:?}") };
            assert!(!self.slots.values().any(|held| *held == id), "{id} has two nonces");
            self.slots.insert(self.next, id);
            self.next += 1;
        }
        for attempt in commit.attempts() {
            let nonce = attempt.nonce.get();
            assert!(self.slots.contains_key(&nonce), "an attempt without a slot");
            self.durable.insert(attempt.hash, (nonce, attempt.raw.clone()));
        }
        for change in commit.changes() {
            let (id, to) = (change.tx_id(), change.to());
            assert!(!self.ends.contains_key(&id), "{id} had ended");
            if let Some(nonce) = to.nonce() {
                assert_eq!(self.slots.get(&nonce.get()), Some(&id), "{id} has another's nonce");
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

    fn check_end(&self, id: TxId, state: &TxState, chain: &Chain) {
        let number = self.number_of(id);
        match state {
            TxState::Confirmed(settled) => self.check_settled(settled, number, chain, Some(false)),
            TxState::FailedFinal(Failure::Reverted(settled)) => self.check_settled(settled, number, chain, Some(true)),
            TxState::Canceled(Cancellation::OnChain(_, settled)) => self.check_settled(settled, number, chain, None),
            TxState::FailedFinal(Failure::Unbound(FailReason::SimulationReverted, _)) => {
                assert!(needs_previous(number), "{number} reverts for no reason");
            }
            TxState::FailedFinal(Failure::Unbound(FailReason::InvalidPayload, _)) => assert!(is_invalid(number)),
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
        if let Some(reverted) = reverted {
            assert_eq!((tx.intent, reverts(tx.intent)), (number, reverted));
        }
    }

    /// When all is calm: everything ended, as the chain says, without a gap, in the order of acceptance.
    pub(crate) fn end(&self, chain: &Chain, rows: &[ManagedTx]) {
        let mined: Vec<_> = chain.blocks.iter().flat_map(|block| &block.txs).collect();
        assert_eq!(mined.len() as u64, self.next, "every bound nonce is consumed");
        for (nonce, tx) in mined.iter().enumerate() {
            assert_eq!(tx.nonce, nonce as u64);
            assert!(self.durable.contains_key(&tx.hash));
        }
        let in_order: Vec<u64> = self.slots.values().map(|id| self.number_of(*id)).collect();
        assert!(in_order.is_sorted(), "nonces follow acceptance: {in_order:?}");
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
