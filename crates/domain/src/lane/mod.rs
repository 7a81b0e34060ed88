//! The lane: the pure state machine that decides for one submitter.
//!
//! Facts come in and effects go out ([`Lane::handle`]). The lane does no I/O and reads no clock. All of its state can
//! be rebuilt from the store: a lane whose state is uncertain is dropped and loaded again.
//!
//! The lane is driven by levels, not by edges. A fact only changes the lane's knowledge. Then `decide` looks at the
//! whole state and begins everything that is possible and not in flight. A fact that comes late, twice or in another
//! order leads to the same result.
//!
//! - `queue`: queued intents and how far each of them is prepared. `pricing`: the answers to prepare requests.
//! - `open_slot`: one bound nonce, its attempts, its state on chain, its next send. `slots`: all open slots and their
//!   indexes. `restoring`: a slot as loaded from the ledger.
//! - `funds`: the amount that the account can spend.
//! - `scanning`: reads blocks to find out what consumed a nonce. `reconcile_plan`: what a scan
//!   means for the ledger. `reconciling`: carries the plan out, by command or by policy.
//! - `confirmations`: notices about new confirmations.
//! - `commands`: executes commands. `canceling`, `replacing` and `reservations` hold the larger ones.
//! - `bumping`: resends and bumps of attempts that wait too long. `stuck`: decisions about stuck intents.
//! - `decide`: what to begin next. `pending_commit`: the commit in flight. `start`: where a new lane starts, and the
//!   checks that lead to PROTECT.
//! - `planted_bugs`: deliberate mistakes for the simulator.

mod bumping;
mod canceling;
mod commands;
mod confirmations;
mod decide;
mod effect;
mod fact;
mod funds;
mod open_slot;
mod pending_commit;
#[cfg(feature = "mistakes")]
mod planted_bugs;
mod pricing;
mod queue;
mod reconcile_plan;
mod reconciling;
mod replacing;
mod reservations;
mod restoring;
mod scanning;
mod setup;
mod slots;
mod start;
mod stuck;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use alloy_primitives::{B256, Bytes};

use crate::amount::Amount;
use crate::attempt::{NewAttempt, SendOutcome, SendReport};
use crate::block::{BlockLink, BlockRef};
use crate::command::{Command, CommandId};
use crate::cursor::{Cursor, ProtectCode, Protection};
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::lease::Lease;
use crate::mistakes::{self, Mistake};
use crate::nonce::Nonce;
use crate::policy::ReleaseRule;
use crate::signing::{Outline, SignedTx};
use crate::snapshot::LaneSnapshot;
use crate::time::{Tick, Timestamp};

pub use effect::{DiagnoseRequest, Effect, Outgoing, PrepareRequest, ScanRequest, SignRequest, Step, WatchRequest};
pub use fact::{
    AccountFacts, ChainFacts, CommitOutcome, Fact, MinedTx, Peeked, PrepareFailure, PrepareKey, Prepared, ScanResult,
    ScannedTx, SentTx, Sighting, SignFailure,
};
pub use setup::{LaneLimits, LaneSetup};

use funds::Funds;
use open_slot::{BumpReason, MiningState, NextAttempt, OpenSlot, Pace, Sending, SlotAttempt};
use pending_commit::PendingCommit;
use queue::{Candidate, Queue};
use scanning::Scans;
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
    /// Slots that may have a state change to write.
    dirty: BTreeSet<Nonce>,
    by_hash: HashMap<B256, Nonce>,
    /// Slots that are mined and not final, in the order in which their next confirmation notice is due.
    notice_queue: VecDeque<Nonce>,
    /// The chain as the watcher last reported it.
    chain: Option<Arc<ChainFacts>>,
    /// The newest block that contains a transaction of a closed slot.
    newest_closed: Option<BlockLink>,
    queue: Queue,
    peek_limit: u32,
    commands: Vec<Command>,
    commands_done: HashSet<CommandId>,
    funds: Funds,
    scans: Scans,
    signing: Option<Vec<Signing>>,
    sign_after: Tick,
    sign_failures: u32,
    /// Signed and not yet durable. These attempts are never sent from here.
    signed: Vec<SignedItem>,
    pending_commit: Option<PendingCommit>,
    write_after: Tick,
    write_failures: u32,
    reports: Vec<SendReport>,
    /// The last commit left a slot that needs a price.
    prepare_again: bool,
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

/// A sighting that contradicts the known state of the slot.
enum UnexpectedSighting {
    /// The final block that held the slot's transaction is no longer canonical.
    Orphaned(BlockRef),
    FinalElsewhere(B256),
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
            dirty: BTreeSet::new(),
            by_hash: HashMap::new(),
            notice_queue: VecDeque::new(),
            chain: None,
            newest_closed: None,
            queue: Queue::unread(),
            peek_limit: 0,
            commands: snapshot.commands,
            commands_done: HashSet::new(),
            funds: Funds::default(),
            scans: Scans::default(),
            signing: None,
            sign_after: Tick::default(),
            sign_failures: 0,
            signed: Vec::new(),
            pending_commit: None,
            write_after: Tick::default(),
            write_failures: 0,
            reports: Vec::new(),
            prepare_again: false,
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
            (open.above, open.tries, open.signal) = (slot.above, slot.tries, slot.signal);
            open.sending = match resubmit_at {
                Some(at) => Sending::Due { at: lane.tick_of(at), claim: true },
                None => Sending::Due { at: now, claim: false },
            };
            slots.insert(slot.nonce, open);
        }
        for attempt in snapshot.attempts {
            lane.by_hash.insert(attempt.hash, attempt.nonce);
            if let Some(slot) = slots.get_mut(&attempt.nonce) {
                // The former owner may have died before it wrote the result of a send. So a refusal counts only if it
                // is the answer to the only send.
                let refused = attempt.last_outcome.as_ref().is_some_and(|(outcome, _)| outcome.is_refusal());
                let pooled = !(refused && attempt.sends == 1);
                slot.attempts.reserve_exact(1);
                slot.attempts.push(SlotAttempt::restore(attempt, pooled, &outline_of));
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
        lane.dirty = lane.slots.unmined().clone();
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
            Fact::Woken => self.queue.peek_wanted = true,
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

    fn peeked(&mut self, answer: Option<Peeked>) {
        let Some(Peeked { queue, commands }) = answer else {
            self.queue.peek_failed();
            return;
        };
        if self.peek_limit == 0 {
            self.queue.command_poll_done();
        } else {
            self.merge(queue);
        }
        self.commands = commands.into_iter().filter(|command| !self.commands_done.contains(&command.id)).collect();
        self.queue.must_peek |=
            self.peek_limit == 0 && self.commands.iter().any(|command| self.targets_unknown_intent(command));
        self.drop_orphaned_requests();
    }

    /// True if the command refers to an intent that is neither a candidate, nor in a slot, nor about to leave the
    /// queue.
    fn targets_unknown_intent(&self, command: &Command) -> bool {
        let Some(id) = command.kind.tx_id() else { return false };
        let is_candidate = self.queue.candidates.iter().any(|candidate| candidate.tx.id == id);
        !is_candidate && self.slots.find(id).is_none() && !self.ids_leaving().any(|leaving| leaving == id)
    }

    fn merge(&mut self, queue: Vec<IntentRecord>) {
        if self.peek_limit as usize >= self.setup.limits.adopt && !self.queue.ignores_peek_in_flight() {
            self.scans.queue_was_read();
        }
        let leaving: HashSet<TxId> = self.ids_leaving().collect();
        let slots = &self.slots;
        self.queue.merge(queue, self.peek_limit as usize, |id| slots.holds(id) || leaving.contains(&id));
    }

    /// Intents that are about to leave the queue. The store may still list them as queued.
    fn ids_leaving(&self) -> impl Iterator<Item = TxId> {
        let signing = self.signing.iter().flatten().filter_map(|item| Some(item.candidate.as_ref()?.tx.id));
        let signed = self.signed.iter().filter_map(|item| Some(item.candidate.as_ref()?.tx.id));
        let pending = self.pending_commit.iter().flat_map(PendingCommit::ids);
        signing.chain(signed).chain(pending)
    }

    fn sent(&mut self, sent: SentTx, now: Tick) {
        let (pace, head) = (self.pace(), self.head());
        let updated = self.slots.update(sent.nonce, |slot| {
            slot.sent_at_head = head.or(slot.sent_at_head);
            let is_newest = slot.attempts.last().is_some_and(|held| held.attempt.hash == sent.hash);
            slot.newest_sent_at_head = slot.newest_sent_at_head.or(head.filter(|_| is_newest));
            slot.sent(sent.hash, sent.outcome, now, &pace);
        });
        if updated.is_none() {
            return;
        }
        self.dirty.insert(sent.nonce);
        #[cfg(feature = "mistakes")]
        if mistakes::made(Mistake::NonceTooLowIsSuccess) && sent.outcome == SendOutcome::NonceTooLow {
            self.treat_too_low_as_final(&sent);
        }
        let Some(slot) = self.slots.get(sent.nonce) else { return };
        let was_filler = slot.kind_of(sent.hash).is_some_and(|kind| !kind.carries_payload());
        match sent.outcome {
            // The text does not prove which transaction consumed the nonce: look for our hashes (S06).
            SendOutcome::NonceTooLow => {
                let watched =
                    slot.hashes().map(|hash| WatchRequest { hash, known_block: None, look_up: true }).collect();
                self.effects.push(Effect::Watch(watched));
                self.funds.read_soon();
            }
            SendOutcome::NonceTooHigh => self.resend_below(sent.nonce, now),
            SendOutcome::InsufficientFunds => self.funds.read_soon(),
            SendOutcome::Underpriced => self.request_bump(sent.nonce, false, now),
            // The pool holds another attempt of ours, or a transaction of another owner of the key.
            SendOutcome::ReplacementUnderpriced if was_filler || slot.attempts.len() > 1 => {
                self.request_bump(sent.nonce, true, now);
            }
            // A late answer decides nothing.
            SendOutcome::Rejected if was_filler && slot.mining == MiningState::Unmined && !slot.is_ended() => {
                self.cannot_fill(&sent);
            }
            _ => {}
        }
        let SentTx { nonce, hash, outcome, text, answers } = sent;
        self.reports.push(SendReport { nonce, hash, outcome, text, answers });
    }

    /// Requests a new price for the slot, at the pace of resends, unless the caller set the price or the tries are used
    /// up. A filler is priced again without a limit on tries, but only if the market price rose.
    fn request_bump(&mut self, nonce: Nonce, is_replacement: bool, now: Tick) {
        if mistakes::made(Mistake::UnderpricedIsSuccess) {
            return;
        }
        let (most, pace) = (self.setup.policy.bump.max_attempts, self.pace());
        self.slots.update(nonce, |slot| {
            let has_tries = slot.next_ordinal() <= most;
            let ours = if slot.wants_filler() {
                has_tries || !is_replacement
            } else {
                slot.repeated_call().is_some() && !slot.has_own_price() && has_tries
            };
            if ours && !slot.is_mined() && slot.next_attempt == NextAttempt::None {
                slot.bump_reason =
                    Some(if is_replacement { BumpReason::ReplacementUnderpriced } else { BumpReason::Underpriced });
                slot.next_attempt = NextAttempt::Later(now.saturating_add(pace.after_failures(slot.failures)));
            }
        });
    }

    /// Sends the lower nonces again, because the node may have lost them. Nonces that the node does not accept keep
    /// their own pace.
    fn resend_below(&mut self, nonce: Nonce, now: Tick) {
        let lower: Vec<Nonce> = self.slots.unmined().range(..nonce).copied().collect();
        for nonce in lower {
            self.slots.update(nonce, |slot| {
                let waits = matches!(slot.sending, Sending::Due { .. } | Sending::Idle) && slot.failures == 0;
                if waits && slot.mining == MiningState::Unmined {
                    slot.sending = Sending::Due { at: now, claim: false };
                }
            });
        }
    }

    fn observe(&mut self, sighting: Sighting, now: Tick) {
        let (Sighting::StillMined { hash, .. }
        | Sighting::Unmined { hash, .. }
        | Sighting::Final { hash, .. }
        | Sighting::NotFound { hash }
        | Sighting::Mined(MinedTx { hash, .. })) = &sighting;
        let Some(nonce) = self.by_hash.get(hash).copied() else { return };
        let is_matched = |slot: &OpenSlot| slot.kind_of(*hash).is_some();
        if (mistakes::made(Mistake::ReorgIgnored) && matches!(sighting, Sighting::Unmined { .. }))
            || (mistakes::made(Mistake::OnlyLastHash) && !self.slots.get(nonce).is_some_and(is_matched))
        {
            return;
        }
        let answer = self.slots.update(nonce, |slot| {
            let changed = match sighting {
                Sighting::Mined(mined) => slot.mined(mined),
                Sighting::StillMined { hash, block } => {
                    slot.still_mined(hash, block);
                    false
                }
                Sighting::Unmined { hash, block } if slot.is_final_in(hash, block) => {
                    slot.no_longer_final(now);
                    return Err(UnexpectedSighting::Orphaned(block));
                }
                Sighting::Unmined { hash, block } => {
                    slot.unmined(hash, block, now);
                    false
                }
                Sighting::Final { hash, block, list } => {
                    if !slot.finalized(hash, block, list) {
                        return Err(UnexpectedSighting::FinalElsewhere(hash));
                    }
                    false
                }
                Sighting::NotFound { hash } => {
                    slot.hash_not_found(hash, now);
                    false
                }
            };
            let grows =
                matches!(slot.mining, MiningState::Mined(_)) && !std::mem::replace(&mut slot.in_notice_queue, true);
            Ok((changed, grows))
        });
        match answer {
            Some(Ok((changed, grows))) => {
                if changed {
                    self.queue.retry_postponed();
                }
                if grows && self.setup.limits.notices_per_head > 0 {
                    self.notice_queue.push_back(nonce);
                }
            }
            Some(Err(UnexpectedSighting::Orphaned(block))) => {
                let number = block.number;
                let text = format!("final block {number}, which contains nonce {nonce}, was orphaned");
                self.want_protect(ProtectCode::DeepReorg, &text);
            }
            // The transaction is final in another block than the known one: ask for its inclusion.
            Some(Err(UnexpectedSighting::FinalElsewhere(hash))) => {
                self.effects.push(Effect::Watch(vec![WatchRequest { hash, known_block: None, look_up: true }]));
            }
            None => return,
        }
        self.dirty.insert(nonce);
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
