//! The lane: the pure state machine that decides for one submitter.
//!
//! Facts come in and effects go out ([`Lane::handle`]). The lane does no I/O and reads no clock. All of its state can
//! be rebuilt from the store: a lane whose state is uncertain is dropped and loaded again.
//!
//! The lane is driven by levels, not by edges. A fact only changes the lane's knowledge. Then `decide` looks at the
//! whole state and begins everything that is possible and not in flight. A fact that comes late, twice or in another
//! order leads to the same result.
//!
//! - `queue`: queued intents and how far each of them is prepared
//! - `open_slot`: one bound nonce, its attempts, its state on chain, its next send. `reservations`: a slot's
//!   reservation. `slots`: all open slots and their indexes. `restoring`: a slot as loaded from the ledger.
//! - `funds`: the amount that the account can spend
//! - `draft`: the commit being built, and the records as that commit will leave them. `fold`: how a written commit
//!   changes the memory.
//! - `decide`: the rules, one a file. `command`: the commands, one a file. `reconcile`: scans of the chain and the
//!   changes that they call for.
//! - `planted_bugs`: deliberate mistakes for the simulator

mod command;
mod decide;
mod draft;
mod effect;
mod fact;
mod fold;
mod funds;
mod open_slot;
#[cfg(feature = "mistakes")]
mod planted_bugs;
mod queue;
mod reconcile;
mod reservations;
mod restoring;
mod setup;
mod slot_chain;
mod slot_work;
mod slots;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use alloy_primitives::{B256, Bytes};

use crate::amount::Amount;
use crate::attempt::{NewAttempt, SendReport};
use crate::block::BlockLink;
use crate::command::{Command, CommandId};
use crate::cursor::{Cursor, Protection};
use crate::id::TxId;
use crate::lease::Lease;
use crate::nonce::Nonce;
use crate::policy::ReleaseRule;
use crate::signing::{Outline, SignedTx};
use crate::snapshot::LaneSnapshot;
use crate::time::{Tick, Timestamp};

pub use decide::BindBlocker;
pub use effect::{DiagnoseRequest, Effect, Outgoing, PrepareRequest, ScanRequest, SignRequest, Step, WatchRequest};
pub use fact::{
    AccountFacts, ChainFacts, CommitOutcome, Fact, MinedTx, Peeked, PrepareFailure, PrepareKey, Prepared, ScanResult,
    ScannedTx, SentTx, Sighting, SignFailure,
};
pub use setup::{LaneLimits, LaneSetup};

use draft::{AttemptOrigin, AttemptSource, Draft};
use funds::Funds;
use open_slot::{OpenSlot, PoolState, SlotAttempt};
use queue::{Candidate, Queue};
use reconcile::scan::Scans;
use slot_work::{Pace, Sending};
use slots::Slots;

/// The state machine of one lane. See the module documentation.
#[derive(Debug)]
pub struct Lane {
    lease: Lease,
    setup: LaneSetup,
    /// `None` until the first nonce of a new lane is known.
    cursor: Option<Cursor>,
    /// The store lost commits. The lane writes nothing else before it has acknowledged this.
    regressed: bool,
    slots: Slots,
    by_hash: HashMap<B256, Nonce>,
    /// Slots that are mined and not final, in the order in which their next confirmation notice is due.
    notice_queue: VecDeque<Nonce>,
    /// The chain as the watcher last reported it.
    chain: Option<Arc<ChainFacts>>,
    /// The newest block that contains a transaction of a closed slot.
    newest_closed: Option<BlockLink>,
    queue: Queue,
    commands: Vec<Command>,
    commands_done: HashSet<CommandId>,
    funds: Funds,
    scans: Scans,
    signing: Option<Vec<Signing>>,
    sign_after: Tick,
    sign_failures: u32,
    /// Signed and not yet durable. These attempts are never sent from here.
    signed: Vec<SignedItem>,
    /// The commit in flight.
    draft: Option<Draft>,
    write_after: Tick,
    write_failures: u32,
    reports: Vec<SendReport>,
    /// Text about a market price above the cap of the policy, and whether consumers were notified.
    above_cap: Option<String>,
    notified_above_cap: bool,
    protect: Option<Protection>,
    broadcasting: bool,
    /// Commits may not have reached the standby of the store, so nothing is sent until a later commit has. True after a
    /// commit that reports it, and after loading: the last commit may be one whose answer was lost.
    unreplicated: bool,
    /// A time of the database's clock, with the tick at which it was read.
    database_time: (Timestamp, Tick),
    idle_since: Option<Tick>,
    draining: bool,
    over: bool,
    /// Effects that were begun outside of `decide`; the next step returns them.
    effects: Vec<Effect>,
}

/// The highest of the given links.
fn newest_link(links: impl Iterator<Item = BlockLink>) -> Option<BlockLink> {
    links.max_by_key(|link| link.block.number)
}

/// An attempt at the signer: a bind or, without a candidate, another attempt of a slot.
#[derive(Debug)]
struct Signing {
    candidate: Option<Candidate>,
    attempt: UnsignedAttempt,
}

#[derive(Debug)]
struct SignedItem {
    /// `None` for another attempt of a slot.
    candidate: Option<Candidate>,
    attempt: NewAttempt,
    gas_limit: u64,
    cost: Amount,
    /// The command that requested the attempt.
    requested_by: Option<CommandId>,
}

/// An attempt without hash and bytes.
#[derive(Clone, Copy, Debug)]
struct UnsignedAttempt {
    nonce: Nonce,
    ordinal: u16,
    kind: crate::attempt::AttemptKind,
    fees: crate::payload::Fees,
    gas_limit: u64,
    cost: Amount,
    requested_by: Option<CommandId>,
}

impl Signing {
    fn is_for_intent(&self, id: TxId) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.tx.id == id)
    }
}

impl SignedItem {
    fn origin(&self) -> AttemptOrigin {
        let source = self.requested_by.map_or(AttemptSource::Signed, AttemptSource::Requested);
        AttemptOrigin { source, cost: self.cost, gas_limit: self.gas_limit }
    }

    fn outgoing(&self) -> Outgoing {
        let NewAttempt { nonce, hash, raw, .. } = &self.attempt;
        Outgoing { nonce: *nonce, tx: SignedTx { hash: *hash, raw: raw.clone() } }
    }

    fn is_for_intent(&self, id: TxId) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.tx.id == id)
    }
}

impl UnsignedAttempt {
    fn with(self, signed: SignedTx) -> NewAttempt {
        let UnsignedAttempt { nonce, ordinal, kind, fees, .. } = self;
        NewAttempt { nonce, ordinal, kind, hash: signed.hash, raw: signed.raw, fees }
    }
}

impl Lane {
    /// Loads a lane from a snapshot. `outline_of` decodes the effect and the highest cost of signed bytes.
    pub fn restore(
        lease: &Lease,
        snapshot: LaneSnapshot,
        setup: LaneSetup,
        outline_of: impl Fn(&Bytes) -> Option<Outline>,
        now: Tick,
    ) -> Self {
        let mut lane = Lane {
            lease: lease.clone(),
            setup,
            cursor: snapshot.cursor,
            regressed: snapshot.regressed,
            slots: Slots::default(),
            by_hash: HashMap::new(),
            notice_queue: VecDeque::new(),
            chain: None,
            newest_closed: None,
            queue: Queue::unread(),
            commands: snapshot.commands,
            commands_done: HashSet::new(),
            funds: Funds::default(),
            scans: Scans::default(),
            signing: None,
            sign_after: Tick::default(),
            sign_failures: 0,
            signed: Vec::new(),
            draft: None,
            write_after: Tick::default(),
            write_failures: 0,
            reports: Vec::new(),
            above_cap: None,
            notified_above_cap: false,
            protect: None,
            broadcasting: false,
            unreplicated: true,
            database_time: (snapshot.now, now),
            idle_since: None,
            draining: false,
            over: false,
            effects: Vec::new(),
        };
        let mut slots = BTreeMap::new();
        for slot in snapshot.slots {
            let resubmit_at = slot.next_resubmit_at;
            let mut open = OpenSlot::empty(slot.nonce, slot.kind);
            (open.above, open.resends.tries, open.resends.signal) = (slot.above, slot.tries, slot.signal);
            open.sends.next = match resubmit_at {
                Some(at) => Sending::claim(lane.tick_of(at)),
                None => Sending::Send { at: now },
            };
            slots.insert(slot.nonce, open);
        }
        for attempt in snapshot.attempts {
            lane.by_hash.insert(attempt.hash, attempt.nonce);
            if let Some(slot) = slots.get_mut(&attempt.nonce) {
                // The former owner may have died before it wrote the result of a send. So a refusal counts only if it
                // is the answer to the only send.
                let refused = attempt.last_outcome.as_ref().is_some_and(|(outcome, _)| outcome.is_refusal());
                let pool = if refused && attempt.sends == 1 { PoolState::Absent } else { PoolState::Pooled };
                slot.attempts.reserve_exact(1);
                slot.attempts.push(SlotAttempt::restore(attempt, pool, &outline_of));
            }
        }
        for tx in snapshot.bound {
            if let Some(slot) = tx.state.nonce().and_then(|nonce| slots.get_mut(&nonce)) {
                slot.restore_intent(tx, now, &outline_of);
            }
        }
        for reservation in snapshot.reservations {
            if let Some(slot) = slots.get_mut(&reservation.nonce) {
                slot.restore_reservation(reservation);
            }
        }
        slots.values_mut().for_each(OpenSlot::restore_lost);
        let (resubmit, now_is) = (lane.setup.resubmit_interval(), lane.database_time.0);
        for mut slot in slots.into_values() {
            slot.restore_sending(resubmit, now_is, now);
            lane.slots.insert(slot);
        }
        let watched: Vec<WatchRequest> = lane.slots.iter().flat_map(OpenSlot::watched).collect();
        if !watched.is_empty() {
            lane.effects.push(Effect::Watch(watched));
        }
        lane.check_slots_have_no_hole();
        lane
    }

    /// Applies a fact and returns the effects to begin.
    pub fn handle(&mut self, fact: Fact, now: Tick) -> Step {
        match fact {
            Fact::Woken => self.queue.want_peek(),
            Fact::Tick => {}
            Fact::Drain => self.draining = true,
            Fact::Peeked(answer) => self.peeked(answer),
            Fact::Prepared(answers) => {
                for (key, answer) in answers {
                    match key {
                        PrepareKey::Intent(id, version) => self.candidate_prepared(id, version, answer, now),
                        PrepareKey::Slot(nonce, ticket) => self.attempt_prepared(nonce, ticket, answer, now),
                    }
                }
            }
            Fact::Signed(answers) => self.signed(answers, now),
            Fact::Committed(outcome) => self.committed(outcome, now),
            Fact::Sent(sent) => {
                self.broadcasting = false;
                for sent in sent {
                    self.sent(sent, now);
                }
            }
            Fact::Sightings(sightings) => {
                for sighting in sightings {
                    self.observe(sighting, now);
                }
            }
            Fact::Chain(chain) => self.chain_changed(chain),
            Fact::Account(account) => self.account(account, now),
            Fact::Scanned(scan) => self.scanned(scan, now),
            Fact::Diagnosed(signals) => self.diagnosed(signals),
            Fact::Decided(nonce, decision) => self.decided(nonce, decision),
        }
        self.decide(now)
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The cursor as stored.
    pub fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// Number of nonces that are bound and not consumed, by the release rule of the policy.
    pub fn in_flight(&self) -> usize {
        match self.setup.policy.nonce.release {
            ReleaseRule::Mined => self.slots.unmined().len(),
            ReleaseRule::Final => self.slots.unsettled(),
        }
    }

    fn pace(&self) -> Pace {
        Pace {
            first: self.setup.limits.resend_first,
            longest: self.setup.limits.resend_longest,
            resubmit: self.setup.resubmit_interval(),
        }
    }

    /// The tick at which the database's clock shows `at`.
    fn tick_of(&self, at: Timestamp) -> Tick {
        let (then, tick) = self.database_time;
        let micros = u64::try_from(at.as_micros().saturating_sub(then.as_micros())).unwrap_or(0);
        tick.saturating_add(std::time::Duration::from_micros(micros))
    }

    /// Approximate time of the database's clock.
    fn database_now(&self, now: Tick) -> Timestamp {
        let (then, tick) = self.database_time;
        then.saturating_add(now.saturating_since(tick))
    }
}
