//! The ledger rebuilt from the commits.

use std::collections::BTreeMap;
use std::sync::Arc;

use gapless_domain::{
    AttemptKind, B256, Bytes, CancelReason, Cancellation, Change, Cursor, Fees, FencingToken, Intent, LaneCommit,
    Lease, Progress, RequestId, SlotKind, SubmitterId, TxId, TxState,
};

use crate::chain::payload_data;
use crate::history::{Moment, effect_of};

/// All rows that matter for a promise.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub lanes: BTreeMap<SubmitterId, LaneLedger>,
    pub intents: BTreeMap<TxId, IntentEntry>,
    pub requests: BTreeMap<(SubmitterId, RequestId), TxId>,
}

/// The rows of one lane.
#[derive(Clone, Debug, Default)]
pub struct LaneLedger {
    pub cursor: Option<Cursor>,
    pub slots: BTreeMap<u64, SlotKind>,
    pub attempts: BTreeMap<B256, AttemptEntry>,
    /// The newest lease, and whether its owner has released it.
    pub lease: Option<Lease>,
    pub released: bool,
    pub written_by: Option<FencingToken>,
    /// For each nonce: the intent that holds it now.
    pub holders: BTreeMap<u64, TxId>,
    /// For each intent: all nonces that it ever got, the oldest first.
    pub given: BTreeMap<TxId, Vec<u64>>,
}

/// The row of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptEntry {
    pub nonce: u64,
    pub kind: AttemptKind,
    pub fees: Fees,
    pub raw: Bytes,
}

/// The row of an intent.
#[derive(Clone, Debug)]
pub struct IntentEntry {
    pub intent: Arc<Intent>,
    pub state: TxState,
    pub version: u32,
    /// The number in its bytes.
    pub effect: Option<u64>,
    /// The bytes of each replacement, added with the attempt that carries it first.
    pub replacements: Vec<Bytes>,
}

/// The rows before the newest moment, for checks that compare.
#[derive(Clone, Debug, Default)]
pub struct LedgerBefore {
    /// For each change of the commit, in order: the row before that change. None if there was no row.
    pub rows: Vec<Option<(TxState, u32)>>,
    pub cursor: Option<Cursor>,
    pub last_slot: Option<u64>,
    /// Slots of the commit that were bound already, by this or an earlier commit.
    pub taken: Vec<u64>,
    /// Nonces that got a second holder: the nonce, the old holder, the new holder.
    pub clashes: Vec<(u64, TxId, TxId)>,
    /// The newest lease, and whether it was released.
    pub lease: Option<Lease>,
    pub released: bool,
    pub written_by: Option<FencingToken>,
    /// Another intent with the same request id.
    pub same_request: Option<TxId>,
}

impl Ledger {
    pub fn new(lanes: &[SubmitterId]) -> Self {
        let lanes = lanes.iter().map(|lane| (lane.clone(), LaneLedger::default())).collect();
        Ledger { lanes, ..Ledger::default() }
    }

    pub fn lane(&self, lane: &SubmitterId) -> Option<&LaneLedger> {
        self.lanes.get(lane)
    }

    /// Writes the rows that the store wrote. Returns the rows before.
    pub(super) fn apply(&mut self, moment: &Moment) -> LedgerBefore {
        match moment {
            Moment::Accepted { id, intent } => self.accept(*id, intent),
            Moment::CanceledInQueue { id } => self.cancel(*id),
            Moment::Leased { lease } => self.lane_mut(lease.submitter()).grant(lease),
            Moment::Released { lease } => self.lane_mut(lease.submitter()).release(lease),
            Moment::Committed { commit, .. } => self.commit(commit),
            _ => LedgerBefore::default(),
        }
    }

    fn lane_mut(&mut self, lane: &SubmitterId) -> &mut LaneLedger {
        self.lanes.entry(lane.clone()).or_default()
    }

    fn accept(&mut self, id: TxId, intent: &Arc<Intent>) -> LedgerBefore {
        let effect = payload_data(intent.payload()).and_then(|data| effect_of(data));
        let key = (intent.submitter().clone(), intent.request_id().clone());
        let same_request = self.requests.insert(key, id).filter(|other| *other != id);
        let entry = IntentEntry {
            intent: Arc::clone(intent),
            state: TxState::Queued,
            version: 1,
            effect,
            replacements: Vec::new(),
        };
        self.intents.insert(id, entry);
        LedgerBefore { same_request, ..LedgerBefore::default() }
    }

    fn cancel(&mut self, id: TxId) -> LedgerBefore {
        let Some(entry) = self.intents.get_mut(&id) else {
            return LedgerBefore { rows: vec![None], ..LedgerBefore::default() };
        };
        let row = (entry.state.clone(), entry.version);
        entry.state = TxState::Canceled(Cancellation::InQueue(CancelReason::User));
        entry.version += 1;
        LedgerBefore { rows: vec![Some(row)], ..LedgerBefore::default() }
    }

    fn commit(&mut self, commit: &LaneCommit) -> LedgerBefore {
        let lane = commit.lease().submitter();
        let mut before = self.lane_mut(lane).write(commit);
        for change in commit.changes() {
            let row = self.intents.get_mut(&change.tx_id()).map(|entry| {
                let row = (entry.state.clone(), entry.version);
                entry.state = change.to().clone();
                entry.version = change.to_version();
                entry.replacements.extend(change.replacement().and_then(payload_data).cloned());
                row
            });
            let held = row.as_ref().and_then(|(state, _)| state.bound()).map(|bound| bound.nonce.get());
            before.clashes.extend(self.lane_mut(lane).hold(change, held));
            before.rows.push(row);
        }
        before
    }
}

impl LaneLedger {
    fn before(&self) -> LedgerBefore {
        LedgerBefore {
            cursor: self.cursor.clone(),
            last_slot: self.last_slot(),
            lease: self.lease.clone(),
            released: self.released,
            written_by: self.written_by,
            ..LedgerBefore::default()
        }
    }

    pub fn last_slot(&self) -> Option<u64> {
        self.slots.keys().next_back().copied()
    }

    pub fn is_protected(&self) -> bool {
        self.cursor.as_ref().is_some_and(Cursor::is_protected)
    }

    /// True if this is one of our transactions for the nonce.
    pub fn has_attempt(&self, nonce: u64, hash: &B256) -> bool {
        self.attempts.get(hash).is_some_and(|held| held.nonce == nonce)
    }

    fn grant(&mut self, lease: &Lease) -> LedgerBefore {
        let before = self.before();
        self.lease = Some(lease.clone());
        self.released = false;
        before
    }

    /// A release of an older lease is ignored.
    fn release(&mut self, lease: &Lease) -> LedgerBefore {
        let before = self.before();
        self.released |= self.lease.as_ref() == Some(lease);
        before
    }

    fn write(&mut self, commit: &LaneCommit) -> LedgerBefore {
        let mut before = self.before();
        self.written_by = self.written_by.max(Some(commit.lease().token()));
        for slot in commit.slots() {
            let nonce = slot.nonce.get();
            if self.slots.insert(nonce, slot.kind).is_some() {
                before.taken.push(nonce);
            }
            if let SlotKind::Intent(id) = slot.kind {
                self.given.entry(id).or_default().push(nonce);
            }
        }
        for new in commit.attempts() {
            let held = AttemptEntry { nonce: new.nonce.get(), kind: new.kind, fees: new.fees, raw: new.raw.clone() };
            self.attempts.insert(new.hash, held);
        }
        if let Some(change) = commit.cursor() {
            self.cursor = Some(change.to().clone());
        }
        before
    }

    /// Updates the holders of nonces by one change of an intent that held `held`. Returns the clash, if there is one.
    fn hold(&mut self, change: &Change, held: Option<u64>) -> Option<(u64, TxId, TxId)> {
        let id = change.tx_id();
        let now = change.to().bound().map(|bound| bound.nonce.get());
        if let Some(nonce) = held.filter(|nonce| Some(*nonce) != now)
            && self.holders.get(&nonce) == Some(&id)
        {
            self.holders.remove(&nonce);
        }
        let nonce = now?;
        let other = self.holders.insert(nonce, id).filter(|other| *other != id)?;
        Some((nonce, other, id))
    }
}

impl IntentEntry {
    pub fn lane(&self) -> &SubmitterId {
        self.intent.submitter()
    }

    pub fn is_over(&self) -> bool {
        self.state.name().is_terminal()
    }

    /// True if an attempt of this kind may carry these bytes. A caller that signs by itself may send any bytes.
    pub fn may_carry(&self, kind: AttemptKind, data: &Bytes) -> bool {
        let Some(own) = payload_data(self.intent.payload()) else { return true };
        match kind {
            AttemptKind::Original | AttemptKind::Bump => data == own,
            AttemptKind::Replace => self.replacements.contains(data),
            AttemptKind::Cancel | AttemptKind::Fill => data.is_empty(),
        }
    }
}

/// The nonce and the hash of the mined transaction that the ledger names, also of an ended intent.
pub(super) fn mined_at(state: &TxState) -> Option<(u64, B256)> {
    if let Some(bound) = state.bound() {
        return match &bound.progress {
            Progress::Mined(mined) => Some((bound.nonce.get(), mined.inclusion.hash)),
            Progress::Pending | Progress::AwaitingFunds => None,
        };
    }
    settled(state).map(|settled| (settled.nonce.get(), settled.inclusion.hash))
}

/// The terminal state of an intent that the chain has decided.
pub(super) fn settled(state: &TxState) -> Option<&gapless_domain::Settled> {
    use gapless_domain::FinalFailure;
    match state {
        TxState::Confirmed(settled)
        | TxState::FailedFinal(FinalFailure::Reverted(settled))
        | TxState::Canceled(Cancellation::OnChain(_, settled)) => Some(settled),
        _ => None,
    }
}
