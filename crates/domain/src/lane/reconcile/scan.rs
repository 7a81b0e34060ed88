//! Scanning: reads blocks to find the transaction of the account that consumed a nonce (P4, P7).
//!
//! A higher account nonce, a missing receipt or "nonce too low" does not say which transaction consumed a nonce. So the
//! blocks are read from the head down, each linked to the one above, until the transaction is found, or until the block
//! is reached that was final before the nonce was bound. The block must be the same, not only its height: on a chain
//! with another block at that height, the transaction may lie below. A nonce is consumed once, so a transaction found
//! in a canonical block is the only one.

use std::collections::{HashMap, HashSet};

use crate::command::{CommandId, CommandKind};
use crate::cursor::Cursor;
use crate::nonce::Nonce;
use crate::policy::ExternalNoncePolicy;
use crate::text::NodeText;
use crate::time::Tick;

use crate::lane::Lane;
use crate::lane::effect::{Effect, ScanRequest, Step, WatchRequest};
use crate::lane::fact::{ScanResult, ScannedTx};
use crate::lane::open_slot::OpenSlot;

/// Lookups in a row at which all hashes of a consumed slot must be missing before the blocks are scanned.
const MISSES_BEFORE_SCAN: u32 = 2;

/// Failed scans in a row of one command before the command is refused.
const FAILED_SCANS_BEFORE_REFUSAL: u32 = 5;

/// The scan in flight and the newest findings.
#[derive(Debug, Default)]
pub(in crate::lane) struct Scans {
    under_way: Option<ScanInFlight>,
    not_before: Tick,
    /// Number of scans in a row without effect.
    without_effect: u32,
    /// The last scan failed.
    has_failed: bool,
    found: Option<ScanFindings>,
    /// Failed scans of the commands that wait for one.
    failed: HashMap<CommandId, FailedScans>,
    /// The queue was read far enough to compare it with foreign transactions.
    queue_is_known: bool,
}

/// Scans of one command that failed.
#[derive(Debug)]
struct FailedScans {
    /// Number of failed scans in a row.
    count: u32,
    /// Reason of the last one.
    why: NodeText,
}

/// A scan in flight.
#[derive(Debug)]
struct ScanInFlight {
    from: Nonce,
    commands: HashSet<CommandId>,
}

/// A scan whose result was not used yet.
#[derive(Clone, Debug)]
pub(in crate::lane) struct ScanFindings {
    pub(in crate::lane) scan: ScanResult,
    /// Lowest nonce that the scan was asked for.
    from: Nonce,
    /// Commands that were open before the scan began, so that the scan is new enough for them.
    commands: HashSet<CommandId>,
}

/// Result of a scan for one nonce.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::lane) enum NonceUse<'a> {
    /// The account's nonce is not above it.
    Unused,
    /// Consumed by one of our hashes.
    Ours,
    /// Consumed by a foreign transaction.
    Foreign(&'a ScannedTx),
    /// Consumed, and all blocks that could contain its transaction were read. Something else than a
    /// transaction of the account consumed it.
    WithoutTransaction,
    /// Consumed, and not all blocks that could contain its transaction were read.
    Unread,
}

impl Scans {
    pub(in crate::lane) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    pub(in crate::lane) fn take_found(&mut self) -> Option<ScanFindings> {
        self.found.take_if(|_| self.queue_is_known)
    }

    pub(in crate::lane) fn has_found(&self) -> bool {
        self.found.is_some()
    }

    /// Keeps the findings, because the commit that used them was rolled back.
    pub(in crate::lane) fn put_back(&mut self, found: ScanFindings) {
        self.found.get_or_insert(found);
    }

    /// Reason why the scans of the command fail, after enough of them have failed.
    pub(in crate::lane) fn failure(&self, id: CommandId) -> Option<&NodeText> {
        let failed = self.failed.get(&id).filter(|failed| failed.count >= FAILED_SCANS_BEFORE_REFUSAL);
        failed.map(|failed| &failed.why)
    }

    /// Counts the result of a scan for each of its commands. Commands that no longer wait are forgotten.
    fn count(&mut self, commands: &HashSet<CommandId>, failure: Option<&NodeText>) {
        self.has_failed = failure.is_some();
        self.failed.retain(|id, _| failure.is_some() && commands.contains(id));
        let Some(why) = failure else { return };
        for id in commands {
            let before = self.failed.get(id).map_or(0, |failed| failed.count);
            self.failed.insert(*id, FailedScans { count: before.saturating_add(1), why: why.clone() });
        }
    }

    pub(in crate::lane) fn queue_was_read(&mut self) {
        self.queue_is_known = true;
    }
}

impl ScanFindings {
    pub(in crate::lane) fn is_for(&self, id: CommandId) -> bool {
        self.commands.contains(&id)
    }

    /// True if the nonce is consumed at a final block.
    pub(in crate::lane) fn is_final(&self, nonce: Nonce) -> bool {
        self.scan.account.finalized.is_some_and(|finalized| finalized > nonce)
    }

    /// True if all blocks were read that may contain the nonce's transaction. Nonces are consumed in order: below the
    /// transaction of a lower nonce there is none of this nonce.
    pub(in crate::lane) fn has_read_all_of(&self, nonce: Nonce) -> bool {
        let used_before = |sent: &ScannedTx| sent.tx.plan.nonce < nonce;
        self.from <= nonce && (self.scan.is_whole || self.scan.sent.iter().any(used_before))
    }

    pub(in crate::lane) fn on_chain(&self, nonce: Nonce) -> Option<&ScannedTx> {
        self.scan.sent.iter().find(|sent| sent.tx.plan.nonce == nonce)
    }

    /// True if the transaction is in a final block.
    pub(in crate::lane) fn is_in_final_block(&self, sent: &ScannedTx) -> bool {
        let block = self.scan.account.final_block;
        self.is_final(sent.tx.plan.nonce) && block.is_some_and(|block| sent.block.number <= block.number)
    }

    pub(in crate::lane) fn use_of(&self, slot: &OpenSlot) -> NonceUse<'_> {
        match self.on_chain(slot.nonce) {
            Some(sent) if slot.kind_of(sent.tx.signed.hash).is_some() => NonceUse::Ours,
            Some(sent) => NonceUse::Foreign(sent),
            None if self.scan.account.latest <= slot.nonce && !self.is_final(slot.nonce) => NonceUse::Unused,
            None if self.has_read_all_of(slot.nonce) => NonceUse::WithoutTransaction,
            None => NonceUse::Unread,
        }
    }
}

impl Lane {
    pub(in crate::lane) fn adopts(&self) -> bool {
        self.setup.policy.nonce.on_external_nonce == ExternalNoncePolicy::Adopt
    }

    pub(in crate::lane) fn reconcile_commands(&self) -> impl Iterator<Item = CommandId> {
        let reconciles = |kind: &CommandKind| matches!(kind, CommandKind::Unprotect | CommandKind::Resync { .. });
        self.ledger.commands.iter().filter(move |command| reconciles(&command.kind)).map(|command| command.id)
    }

    /// True if a scan needs more of the queue than binding does.
    pub(in crate::lane) fn compares_queue(&self) -> bool {
        !self.scans.queue_is_known && (self.scans.is_under_way() || self.scans.has_found())
    }

    pub(in crate::lane) fn plan_scan(&mut self, now: Tick, step: &mut Step) {
        let Some(cursor) = self.ledger.cursor.clone().filter(|_| !self.is_draining() && !self.ledger.regressed) else {
            return;
        };
        let Some(account) = self.funds.account.filter(|_| !self.scans.is_under_way()) else { return };
        let known = |id: &CommandId| self.scans.found.as_ref().is_some_and(|found| found.is_for(*id));
        let asked_for = self.reconcile_commands().any(|id| !known(&id));
        let ahead = self.adopts() && account.finalized.is_some_and(|finalized| finalized > cursor.next_nonce);
        let is_unexplained = self.ledger.slots.unmined().range(..account.latest).any(|nonce| {
            self.ledger
                .slots
                .get(*nonce)
                .is_some_and(|slot| slot.missed_lookups().is_some_and(|misses| misses >= MISSES_BEFORE_SCAN))
        });
        if !asked_for && (self.scans.has_found() || !(ahead || is_unexplained)) {
            return;
        }
        if (!asked_for || self.scans.has_failed) && now < self.scans.not_before {
            return step.wake(self.scans.not_before);
        }
        let request = self.scan_request(&cursor);
        let commands = self.reconcile_commands().collect();
        self.scans.found = None;
        self.scans.under_way = Some(ScanInFlight { from: request.from, commands });
        self.scans.queue_is_known = false;
        self.queue.want_peek();
        step.effects.push(Effect::Scan(request));
    }

    /// Scans from the lowest nonce that no known inclusion consumed.
    fn scan_request(&self, cursor: &Cursor) -> ScanRequest {
        let from = self.ledger.slots.unmined().first().copied().unwrap_or(cursor.next_nonce).min(cursor.next_nonce);
        // Nonces are consumed in order: a higher nonce is consumed in the same block or above.
        let above = match self.ledger.slots.get(from) {
            Some(slot) => slot.above,
            None => self.newest_inclusion().and_then(|link| link.parent()),
        };
        ScanRequest { from, above }
    }

    pub(in crate::lane) fn scanned(&mut self, answer: Result<ScanResult, NodeText>, now: Tick) {
        let Some(ScanInFlight { from, commands }) = self.scans.under_way.take() else { return };
        self.scans.without_effect = self.scans.without_effect.saturating_add(1);
        self.scans.not_before = now.saturating_add(self.pace().after_failures(self.scans.without_effect));
        self.scans.count(&commands, answer.as_ref().err());
        let Ok(scan) = answer else { return };
        let found = ScanFindings { scan, from, commands };
        let mut watched = Vec::new();
        let unmined: Vec<Nonce> = self.ledger.slots.unmined().range(from..).copied().collect();
        for nonce in unmined {
            let Some(slot) = self.ledger.slots.get(nonce).filter(|slot| slot.is_unmined()) else { continue };
            if found.use_of(slot) == NonceUse::Ours {
                watched.extend(slot.hashes().map(|hash| WatchRequest { hash, known_block: None, look_up: true }));
                self.ledger.slots.update(nonce, |slot| slot.forget_missed_lookups());
            }
        }
        if !watched.is_empty() {
            self.outbox.effects.push(Effect::Watch(watched));
        }
        self.scans.found = Some(found);
    }

    /// A scan explained a nonce: the next scan may start at once.
    pub(in crate::lane) fn scan_helped(&mut self) {
        self.scans.without_effect = 0;
        self.scans.not_before = Tick::default();
    }
}
