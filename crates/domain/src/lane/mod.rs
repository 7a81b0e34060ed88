//! The lane: the pure machine that decides for one submitter.
//!
//! Facts come in, effects go out ([`Lane::handle`]). It does no I/O, reads no clock, and holds nothing that cannot be
//! rebuilt from the store: a lane that is in doubt is dropped and loaded anew.
//!
//! It is driven by levels, not by edges. A fact only changes what the lane knows; then `decide` looks at all of it and begins
//! whatever is possible and not under way. So a fact that comes late, twice or in another order leads to the same place.
//!
//! - `line`: the queue side. Peek, prepare; nobody in it has a nonce. `pricing`: what the answers to that mean.
//! - `open_slot`: one bound nonce, its attempts, what the chain shows of it, when to send it.
//! - `slots`: all of them, and which have something to do. `restoring`: one as the ledger has it.
//! - `purse`: what the account can pay for.
//! - `survey`: what the blocks themselves say of a nonce. `reckoning`: what that means. `recovery`: what is done about it, by an
//!   operator's word or the policy.
//! - `telling`: who is told of new confirmations.
//! - `commands`: what callers and operators ask for. `canceling`, `orders` and `lending` are what they ask for most.
//! - `raising`: sending again, or for more, what waits too long. `stuck`: what somebody has to decide about.
//! - `plan`: what to begin next. `writing`: the one commit under way. `start`: where a new lane begins, and what stops one.

mod canceling;
mod commands;
mod effect;
mod fact;
mod lending;
mod line;
#[cfg(feature = "mistakes")]
mod mistaken;
mod open_slot;
mod orders;
mod plan;
mod pricing;
mod purse;
mod raising;
mod reckoning;
mod recovery;
mod restoring;
mod setup;
mod slots;
mod start;
mod stuck;
mod survey;
mod telling;
mod writing;

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
use crate::plan::{Outline, SignedTx};
use crate::policy::ReleaseRule;
use crate::snapshot::LaneSnapshot;
use crate::time::{Tick, Timestamp};

pub use effect::{DiagnoseRequest, Effect, Outgoing, PrepareRequest, ScanRequest, SignRequest, Step, Watched};
pub use fact::{
    AccountFacts, ChainFacts, CommitOutcome, Fact, MinedTx, OnChain, Peeked, PrepareFailure, PrepareKey, Prepared,
    ScanResult, SentTx, Sighting, SignFailure,
};
pub use setup::{LaneLimits, LaneSetup};

use line::{Candidate, Line};
use open_slot::{HeldAttempt, OpenSlot, Pace, Pressure, Remedy, Seen, Sending};
use purse::Purse;
use slots::Slots;
use survey::Surveys;
use writing::Writing;

#[derive(Debug)]
pub struct Lane {
    lease: Lease,
    setup: LaneSetup,
    /// `None` until it is known where a new lane begins.
    cursor: Option<Cursor>,
    /// The store lost commits; nothing else is written before that is acknowledged.
    regressed: bool,
    slots: Slots,
    /// Those that may have something to write.
    dirty: BTreeSet<Nonce>,
    by_hash: HashMap<B256, Nonce>,
    /// Mined, and not final: those whose confirmations grow, who was told longest ago first.
    growing: VecDeque<Nonce>,
    /// The chain as the watcher last showed it.
    chain: Option<Arc<ChainFacts>>,
    /// The newest block in which one stood that is closed since.
    newest_closed: Option<BlockLink>,
    line: Line,
    peek_limit: u32,
    commands: Vec<Command>,
    commands_done: HashSet<CommandId>,
    purse: Purse,
    surveys: Surveys,
    signing: Option<Vec<Signing>>,
    sign_after: Tick,
    sign_failures: u32,
    /// Signed, not yet durable: never sent from here.
    signed: Vec<SignedItem>,
    writing: Option<Writing>,
    write_after: Tick,
    write_failures: u32,
    reports: Vec<SendReport>,
    /// The commit that was planned last has left something to be priced.
    asks_again: bool,
    /// The market is too dear for the policy, in words; and whether consumers know.
    above_cap: Option<String>,
    told_above_cap: bool,
    protect: Option<Protection>,
    broadcasting: bool,
    /// What the store has may not have reached its standby: nothing is sent until a later commit has. So it is when a
    /// commit says so, and after loading: the commit before may be one whose answer was lost.
    unreplicated: bool,
    /// The database's clock, as of a moment of ours.
    database_time: (Timestamp, Tick),
    idle_since: Option<Tick>,
    draining: bool,
    over: bool,
    /// Begun outside of `decide`, to be handed out with it.
    effects: Vec<Effect>,
}

fn newest(links: impl Iterator<Item = BlockLink>) -> Option<BlockLink> {
    links.max_by_key(|link| link.block.number)
}

/// A sighting that does not fit what is known of the slot.
enum Unexpected {
    /// What was final stood in this block.
    Orphaned(BlockRef),
    FinalElsewhere(B256),
}

/// What is being signed: a bind, or (without a candidate) another attempt for a slot.
#[derive(Debug)]
struct Signing {
    candidate: Option<Candidate>,
    attempt: Unsigned,
}

#[derive(Debug)]
struct SignedItem {
    /// `None` for another attempt of a slot.
    candidate: Option<Candidate>,
    attempt: NewAttempt,
    gas_limit: u64,
    cost: Amount,
    /// The command that it was made for.
    ordered_by: Option<CommandId>,
}

/// An attempt but for hash and bytes.
#[derive(Clone, Copy, Debug)]
struct Unsigned {
    nonce: Nonce,
    ordinal: u16,
    kind: crate::attempt::AttemptKind,
    fees: crate::payload::Fees,
    gas_limit: u64,
    cost: Amount,
    ordered_by: Option<CommandId>,
}

impl Signing {
    fn is_of(&self, id: TxId) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.tx.id == id)
    }
}

impl SignedItem {
    fn outgoing(&self) -> Outgoing {
        let NewAttempt { nonce, hash, raw, .. } = &self.attempt;
        Outgoing { nonce: *nonce, tx: SignedTx { hash: *hash, raw: raw.clone() } }
    }

    fn is_of(&self, id: TxId) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.tx.id == id)
    }
}

impl Unsigned {
    fn with(self, signed: SignedTx) -> NewAttempt {
        let Unsigned { nonce, ordinal, kind, fees, .. } = self;
        NewAttempt { nonce, ordinal, kind, hash: signed.hash, raw: signed.raw, fees }
    }
}

impl Lane {
    /// A lane as the store has it. `outline_of` reads from signed bytes what they do and what they can cost.
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
            growing: VecDeque::new(),
            chain: None,
            newest_closed: None,
            line: Line::unseen(),
            peek_limit: 0,
            commands: snapshot.commands,
            commands_done: HashSet::new(),
            purse: Purse::default(),
            surveys: Surveys::default(),
            signing: None,
            sign_after: Tick::default(),
            sign_failures: 0,
            signed: Vec::new(),
            writing: None,
            write_after: Tick::default(),
            write_failures: 0,
            reports: Vec::new(),
            asks_again: false,
            above_cap: None,
            told_above_cap: false,
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
                // Whoever sent it may have died before it was written down, so only one refusal of one send is believed.
                let refused = attempt.last_outcome.as_ref().is_some_and(|(outcome, _)| outcome.is_refusal());
                let pooled = !(refused && attempt.sends == 1);
                slot.attempts.reserve_exact(1);
                slot.attempts.push(HeldAttempt::restore(attempt, pooled, &outline_of));
            }
        }
        for tx in snapshot.bound {
            if let Some(slot) = tx.state.nonce().and_then(|nonce| slots.get_mut(&nonce)) {
                slot.restore_intent(tx, now, &outline_of);
            }
        }
        for reservation in snapshot.reservations {
            if let Some(slot) = slots.get_mut(&reservation.nonce) {
                slot.restore_lending(reservation);
            }
        }
        slots.values_mut().for_each(OpenSlot::restore_loss);
        let (resubmit, now_is) = (lane.setup.resubmit_interval(), lane.database_time.0);
        for mut slot in slots.into_values() {
            slot.restore_sending(resubmit, now_is, now);
            lane.slots.insert(slot);
        }
        lane.dirty = lane.slots.unmined().clone();
        let watched: Vec<Watched> = lane.slots.iter().flat_map(OpenSlot::watched).collect();
        if !watched.is_empty() {
            lane.effects.push(Effect::Watch(watched));
        }
        lane.check_slots_have_no_hole();
        lane
    }

    /// Takes a fact in and says what to do next.
    pub fn handle(&mut self, fact: Fact, now: Tick) -> Step {
        match fact {
            Fact::Woken => self.line.look = true,
            Fact::Tick => {}
            Fact::Drain => self.draining = true,
            Fact::Peeked(answer) => self.peeked(answer),
            Fact::Prepared(answers) => {
                for (key, answer) in answers {
                    match key {
                        PrepareKey::Intent(id, version) => self.prepared(id, version, answer, now),
                        PrepareKey::Slot(nonce, ticket) => self.prepared_remedy(nonce, ticket, answer, now),
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
            Fact::Seen(sightings) => {
                for sighting in sightings {
                    self.seen(sighting, now);
                }
            }
            Fact::Chain(chain) => self.chain_moved(chain),
            Fact::Account(account) => self.account(account, now),
            Fact::Scanned(survey) => self.surveyed(survey, now),
            Fact::Diagnosed(signals) => self.diagnosed(signals),
            Fact::Decided(nonce, decision) => self.decided(nonce, decision),
        }
        self.decide(now)
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The cursor as the store has it.
    pub fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// How many nonces are bound and not consumed, by the rule of the policy.
    pub fn in_flight(&self) -> usize {
        match self.setup.policy.nonce.release {
            ReleaseRule::Mined => self.slots.unmined().len(),
            ReleaseRule::Final => self.slots.unsettled(),
        }
    }

    fn peeked(&mut self, answer: Option<Peeked>) {
        let Some(Peeked { queue, commands }) = answer else {
            self.line.look_failed();
            return;
        };
        if self.peek_limit == 0 {
            self.line.looked_past();
        } else {
            self.merge(queue);
        }
        self.commands = commands.into_iter().filter(|command| !self.commands_done.contains(&command.id)).collect();
        self.line.must_look |= self.peek_limit == 0 && self.commands.iter().any(|command| self.is_of_nobody(command));
        self.forget_orders();
    }

    /// Is something asked of an intent that the lane does not have before it?
    fn is_of_nobody(&self, command: &Command) -> bool {
        let Some(id) = command.kind.tx_id() else { return false };
        let in_line = self.line.waiting.iter().any(|candidate| candidate.tx.id == id);
        !in_line && self.slots.find(id).is_none() && !self.ids_leaving().any(|leaving| leaving == id)
    }

    fn merge(&mut self, queue: Vec<IntentRecord>) {
        if self.peek_limit as usize >= self.setup.limits.adopt && !self.line.is_distrusted() {
            self.surveys.queue_was_read();
        }
        let leaving: HashSet<TxId> = self.ids_leaving().collect();
        let slots = &self.slots;
        self.line.merge(queue, self.peek_limit as usize, |id| slots.holds(id) || leaving.contains(&id));
    }

    /// Intents that are about to leave the queue, and that the store may still show in it.
    fn ids_leaving(&self) -> impl Iterator<Item = TxId> {
        let signing = self.signing.iter().flatten().filter_map(|item| Some(item.candidate.as_ref()?.tx.id));
        let signed = self.signed.iter().filter_map(|item| Some(item.candidate.as_ref()?.tx.id));
        let writing = self.writing.iter().flat_map(Writing::ids);
        signing.chain(signed).chain(writing)
    }

    fn sent(&mut self, sent: SentTx, now: Tick) {
        let (pace, head) = (self.pace(), self.head());
        let told = self.slots.update(sent.nonce, |slot| {
            slot.sent_at = head.or(slot.sent_at);
            let is_newest = slot.attempts.last().is_some_and(|held| held.attempt.hash == sent.hash);
            slot.offered_at = slot.offered_at.or(head.filter(|_| is_newest));
            slot.sent(sent.hash, sent.outcome, now, &pace);
        });
        if told.is_none() {
            return;
        }
        self.dirty.insert(sent.nonce);
        #[cfg(feature = "mistakes")]
        if mistakes::made(Mistake::NonceTooLowIsSuccess) && sent.outcome == SendOutcome::NonceTooLow {
            self.believe_too_low(&sent);
        }
        let Some(slot) = self.slots.get(sent.nonce) else { return };
        let was_filler = slot.kind_of(sent.hash).is_some_and(|kind| !kind.carries_payload());
        match sent.outcome {
            // By whose transaction, the text does not prove: look for ours (S06).
            SendOutcome::NonceTooLow => {
                let watched = slot.hashes().map(|hash| Watched { hash, known: None, look_up: true }).collect();
                self.effects.push(Effect::Watch(watched));
                self.purse.read_soon();
            }
            SendOutcome::NonceTooHigh => self.send_those_below(sent.nonce, now),
            SendOutcome::InsufficientFunds => self.purse.read_soon(),
            SendOutcome::Underpriced => self.wants_more(sent.nonce, false, now),
            // By an attempt of ours, or of whoever else has the key.
            SendOutcome::ReplacementUnderpriced if was_filler || slot.attempts.len() > 1 => {
                self.wants_more(sent.nonce, true, now);
            }
            // What came too late to be said decides nothing.
            SendOutcome::Rejected if was_filler && slot.seen == Seen::Nowhere && !slot.is_over() => {
                self.cannot_fill(&sent);
            }
            _ => {}
        }
        let SentTx { nonce, hash, outcome, text, heard } = sent;
        self.reports.push(SendReport { nonce, hash, outcome, text, heard });
    }

    /// A price is asked for anew, at the pace of resends, unless it is the caller's own, or there were enough tries. What is to be
    /// consumed without effect is priced again for as long as it takes, but only where the market wants more.
    fn wants_more(&mut self, nonce: Nonce, outbid: bool, now: Tick) {
        if mistakes::made(Mistake::UnderpricedIsSuccess) {
            return;
        }
        let (most, pace) = (self.setup.policy.bump.max_attempts, self.pace());
        self.slots.update(nonce, |slot| {
            let has_tries = slot.next_ordinal() <= most;
            let ours = if slot.wants_nothing() {
                has_tries || !outbid
            } else {
                slot.call_again().is_some() && !slot.has_own_price() && has_tries
            };
            if ours && !slot.is_mined() && slot.remedy == Remedy::None {
                slot.pressure = Some(if outbid { Pressure::Outbid } else { Pressure::Market });
                slot.remedy = Remedy::Later(now.saturating_add(pace.after_failures(slot.failures)));
            }
        });
    }

    /// The node may have lost what it had taken. What it does not take has its own pace.
    fn send_those_below(&mut self, nonce: Nonce, now: Tick) {
        let lower: Vec<Nonce> = self.slots.unmined().range(..nonce).copied().collect();
        for nonce in lower {
            self.slots.update(nonce, |slot| {
                let waits = matches!(slot.sending, Sending::Due { .. } | Sending::Rest) && slot.failures == 0;
                if waits && slot.seen == Seen::Nowhere {
                    slot.sending = Sending::Due { at: now, claim: false };
                }
            });
        }
    }

    fn seen(&mut self, sighting: Sighting, now: Tick) {
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
                    return Err(Unexpected::Orphaned(block));
                }
                Sighting::Unmined { hash, block } => {
                    slot.unmined(hash, block, now);
                    false
                }
                Sighting::Final { hash, block, list } => {
                    if !slot.finalized(hash, block, list) {
                        return Err(Unexpected::FinalElsewhere(hash));
                    }
                    false
                }
                Sighting::NotFound { hash } => {
                    slot.not_found(hash, now);
                    false
                }
            };
            let grows = matches!(slot.seen, Seen::Mined(_)) && !std::mem::replace(&mut slot.grows, true);
            Ok((changed, grows))
        });
        match answer {
            Some(Ok((changed, grows))) => {
                if changed {
                    self.line.try_again();
                }
                if grows && self.setup.limits.notices_per_head > 0 {
                    self.growing.push_back(nonce);
                }
            }
            Some(Err(Unexpected::Orphaned(block))) => {
                let text = format!("block {} was final, and nonce {nonce} stood in it; it is orphaned", block.number);
                self.want_protect(ProtectCode::DeepReorg, &text);
            }
            // Final, but not where we have seen it: what it is there has to be asked.
            Some(Err(Unexpected::FinalElsewhere(hash))) => {
                self.effects.push(Effect::Watch(vec![Watched { hash, known: None, look_up: true }]));
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

    /// When the database's clock will show `at`, by ours.
    fn tick_of(&self, at: Timestamp) -> Tick {
        let (then, tick) = self.database_time;
        let micros = u64::try_from(at.as_micros().saturating_sub(then.as_micros())).unwrap_or(0);
        tick.saturating_add(std::time::Duration::from_micros(micros))
    }

    /// About what the database's clock shows now.
    fn database_now(&self, now: Tick) -> Timestamp {
        let (then, tick) = self.database_time;
        then.saturating_add(now.saturating_since(tick))
    }
}
