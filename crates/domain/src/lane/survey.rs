//! Looking at the blocks themselves, when counts and receipts leave something unexplained: which transaction of the account, if
//! any, has used a nonce (P4, P7).
//!
//! A count that moved on, a missing receipt, "nonce too low": none of these says by what a nonce was used. So the blocks are read
//! from the head down, each linked to the one above, until the transaction is found, or until the very block is reached that was
//! final before the nonce was bound. Not its height: on a chain that has another block there, ours may lie below. A nonce is used once: whoever finds its transaction in a canonical block has found all.

use std::collections::HashSet;

use crate::command::{CommandId, CommandKind};
use crate::cursor::Cursor;
use crate::nonce::Nonce;
use crate::policy::ReservationPolicy;
use crate::time::Tick;

use super::Lane;
use super::effect::{Effect, ScanRequest, Step, Watched};
use super::fact::{OnChain, ScanResult};
use super::open_slot::{OpenSlot, Seen};

/// Looks in a row at which all hashes of a slot must be missing, while its nonce is used up, before the blocks are read.
const LOOKS_BEFORE_SURVEY: u32 = 2;

/// Surveys in a row that brought no answer before those who wait for one are told so.
const SURVEYS_BEFORE_REFUSAL: u32 = 5;

#[derive(Debug, Default)]
pub(super) struct Surveys {
    under_way: Option<Asked>,
    not_before: Tick,
    /// In a row, without anything that helped.
    fruitless: u32,
    /// In a row, without any answer.
    failures: u32,
    found: Option<Found>,
    /// Commands that no survey could be had for.
    unanswered: HashSet<CommandId>,
    /// The queue was read far enough to compare it with what strangers sent.
    queue_is_known: bool,
}

#[derive(Debug)]
struct Asked {
    from: Nonce,
    commands: HashSet<CommandId>,
}

/// A survey that nobody has drawn conclusions from yet.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) survey: ScanResult,
    /// What it was asked about: nonces from this one on.
    from: Nonce,
    /// Those that were open before it began: it is new enough for them.
    commands: HashSet<CommandId>,
}

/// What a survey shows of one nonce.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trace<'a> {
    /// The account's count is not above it.
    Unused,
    /// By one of our hashes.
    Ours,
    Foreign(&'a OnChain),
    /// Used up, and every block that could have its transaction was read: an authorization (EIP-7702), or delegated code.
    WithoutTransaction,
    /// Used up, and not all the blocks were read that could tell by what.
    Unread,
}

impl Surveys {
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    pub(super) fn take_found(&mut self) -> Option<Found> {
        self.found.take_if(|_| self.queue_is_known)
    }

    pub(super) fn has_found(&self) -> bool {
        self.found.is_some()
    }

    /// Nothing came of the conclusions; they are drawn again.
    pub(super) fn give_back(&mut self, found: Found) {
        self.found.get_or_insert(found);
    }

    pub(super) fn is_unanswered(&self, id: CommandId) -> bool {
        self.unanswered.contains(&id)
    }

    pub(super) fn queue_was_read(&mut self) {
        self.queue_is_known = true;
    }
}

impl Found {
    pub(super) fn is_for(&self, id: CommandId) -> bool {
        self.commands.contains(&id)
    }

    /// Is the nonce used up at a final block?
    pub(super) fn is_final(&self, nonce: Nonce) -> bool {
        self.survey.account.finalized.is_some_and(|finalized| finalized > nonce)
    }

    /// Were all blocks read that may have its transaction? Nonces are used in order: below one that was used before it there is
    /// nothing of it either.
    pub(super) fn has_read_all_of(&self, nonce: Nonce) -> bool {
        let used_before = |sent: &OnChain| sent.tx.plan.nonce < nonce;
        self.from <= nonce && (self.survey.is_whole || self.survey.sent.iter().any(used_before))
    }

    pub(super) fn on_chain(&self, nonce: Nonce) -> Option<&OnChain> {
        self.survey.sent.iter().find(|sent| sent.tx.plan.nonce == nonce)
    }

    /// Does it stand in a final block?
    pub(super) fn stands_final(&self, sent: &OnChain) -> bool {
        let block = self.survey.account.final_block;
        self.is_final(sent.tx.plan.nonce) && block.is_some_and(|block| sent.block.number <= block.number)
    }

    pub(super) fn trace(&self, slot: &OpenSlot) -> Trace<'_> {
        match self.on_chain(slot.nonce) {
            Some(sent) if slot.kind_of(sent.tx.signed.hash).is_some() => Trace::Ours,
            Some(sent) => Trace::Foreign(sent),
            None if self.survey.account.latest <= slot.nonce && !self.is_final(slot.nonce) => Trace::Unused,
            None if self.has_read_all_of(slot.nonce) => Trace::WithoutTransaction,
            None => Trace::Unread,
        }
    }
}

impl Lane {
    pub(super) fn adopts(&self) -> bool {
        self.setup.policy.nonce.on_external_nonce == ReservationPolicy::Adopt
    }

    pub(super) fn recovery_commands(&self) -> impl Iterator<Item = CommandId> {
        let recovers = |kind: &CommandKind| matches!(kind, CommandKind::Unprotect | CommandKind::Resync { .. });
        self.commands.iter().filter(move |command| recovers(&command.kind)).map(|command| command.id)
    }

    /// Is the queue to be read further than binding needs?
    pub(super) fn compares_queue(&self) -> bool {
        !self.surveys.queue_is_known && (self.surveys.is_under_way() || self.surveys.has_found())
    }

    pub(super) fn plan_survey(&mut self, now: Tick, step: &mut Step) {
        let Some(cursor) = self.cursor.clone().filter(|_| !self.draining && !self.regressed) else { return };
        let Some(account) = self.purse.account.filter(|_| !self.surveys.is_under_way()) else { return };
        let known = |id: &CommandId| self.surveys.found.as_ref().is_some_and(|found| found.is_for(*id));
        let asked_for = self.recovery_commands().any(|id| !known(&id));
        let ahead = self.adopts() && account.finalized.is_some_and(|finalized| finalized > cursor.next_nonce);
        let suspicious = self.slots.unmined().range(..account.latest).any(|nonce| {
            self.slots.get(*nonce).is_some_and(|slot| slot.lost_looks.is_some_and(|looks| looks >= LOOKS_BEFORE_SURVEY))
        });
        if !asked_for && (self.surveys.has_found() || !(ahead || suspicious)) {
            return;
        }
        if (!asked_for || self.surveys.failures > 0) && now < self.surveys.not_before {
            return step.wake(self.surveys.not_before);
        }
        let request = self.survey_request(&cursor);
        let commands = self.recovery_commands().collect();
        self.surveys.found = None;
        self.surveys.under_way = Some(Asked { from: request.from, commands });
        self.surveys.queue_is_known = false;
        self.line.look = true;
        step.effects.push(Effect::Scan(request));
    }

    /// From the lowest nonce that nothing of ours is seen to have used.
    fn survey_request(&self, cursor: &Cursor) -> ScanRequest {
        let from = self.slots.unmined().first().copied().unwrap_or(cursor.next_nonce).min(cursor.next_nonce);
        // Nonces are used in order: what was used later lies in the same block or above.
        let above = match self.slots.get(from) {
            Some(slot) => slot.above,
            None => self.newest_inclusion().and_then(|link| link.parent()),
        };
        ScanRequest { from, above }
    }

    pub(super) fn surveyed(&mut self, answer: Option<ScanResult>, now: Tick) {
        let Some(Asked { from, commands }) = self.surveys.under_way.take() else { return };
        self.surveys.fruitless = self.surveys.fruitless.saturating_add(1);
        self.surveys.not_before = now.saturating_add(self.pace().after_failures(self.surveys.fruitless));
        self.surveys.failures = if answer.is_none() { self.surveys.failures.saturating_add(1) } else { 0 };
        if self.surveys.failures >= SURVEYS_BEFORE_REFUSAL {
            self.surveys.unanswered.extend(commands.iter().copied());
        }
        let Some(survey) = answer else { return };
        let found = Found { survey, from, commands };
        let mut watched = Vec::new();
        let unmined: Vec<Nonce> = self.slots.unmined().range(from..).copied().collect();
        for nonce in unmined {
            let Some(slot) = self.slots.get(nonce).filter(|slot| slot.seen == Seen::Nowhere) else { continue };
            if found.trace(slot) == Trace::Ours {
                watched.extend(slot.hashes().map(|hash| Watched { hash, known: None, look_up: true }));
                self.slots.update(nonce, |slot| slot.lost_looks = None);
            }
        }
        if !watched.is_empty() {
            self.effects.push(Effect::Watch(watched));
        }
        self.surveys.found = Some(found);
    }

    /// Something was explained: the next doubt is looked into at once.
    pub(super) fn survey_helped(&mut self) {
        self.surveys.fruitless = 0;
        self.surveys.not_before = Tick::default();
    }
}
