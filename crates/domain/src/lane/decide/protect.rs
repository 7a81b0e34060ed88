//! PROTECT (P7): the comparison of the ledger with the account's nonces, and the other reasons to bind nothing more.

use crate::cursor::{Cursor, ProtectCode, Protection};
use crate::nonce::Nonce;
use crate::slot::SlotKind;
use crate::text::NodeText;
use crate::time::Tick;

use crate::lane::Lane;
use crate::lane::decide::start::never_begun;
use crate::lane::effect::{Effect, WatchRequest};
use crate::lane::fact::{AccountFacts, SentTx};
use crate::lane::open_slot::OpenSlot;
use crate::lane::slot_work::MiningState;

/// Reads in a row at which the chain must be ahead before the lane enters PROTECT. An endpoint that lags cannot cause
/// this.
const READS_BEFORE_PROTECT: u32 = 2;

/// Reads in a row at which the final nonce must be lower than the stored one before the lane enters PROTECT. After a
/// takeover, the new owner's endpoints may be behind the former owner's. Nothing is bound until they have caught up.
const BEHIND_READS_BEFORE_PROTECT: u32 = 30;

/// Lookups in a row at which all hashes of a slot must be missing, while its nonce is consumed, before the lane enters
/// PROTECT. The number is higher than for account nonces, because an endpoint that lags behind the final block knows no
/// receipt and says so each time.
const MISSES_BEFORE_PROTECT: u32 = 5;

/// Number of slots that are checked at once, lowest first. Nonces are consumed in order, so the lowest one explains the
/// others.
const LOST_SLOTS_AT_ONCE: usize = 64;

impl Lane {
    pub(in crate::lane) fn compare(&mut self, cursor: &Cursor, account: AccountFacts, now: Tick) {
        let next = cursor.next_nonce;
        if let Some(finalized) = account.finalized {
            if finalized > next && !self.adopts() {
                let text = format!("the account's final nonce is {finalized}, but the ledger's next nonce is {next}");
                self.want_protect(ProtectCode::ExternalNonce, &text);
            }
            self.funds.behind_reads = match finalized < cursor.final_nonce {
                // The node has not caught up. Nothing is bound, and the chain is not blamed.
                true if account.lags => 1,
                true => self.funds.behind_reads.saturating_add(1),
                false => 0,
            };
            if self.funds.behind_reads >= BEHIND_READS_BEFORE_PROTECT {
                let text = format!("the account's final nonce fell from {} to {finalized}", cursor.final_nonce);
                self.want_protect(ProtectCode::ChainRegressed, &text);
            }
        }
        self.check_consumed_slots(account, now);
        let ahead = account.pending.max(account.latest);
        self.funds.ahead_reads = if ahead > next { self.funds.ahead_reads.saturating_add(1) } else { 0 };
        if self.funds.ahead_reads >= READS_BEFORE_PROTECT && !self.adopts() {
            let text = format!("the account's pending nonce is {ahead}, but the ledger's next nonce is {next}");
            self.want_protect(ProtectCode::PendingAhead, &text);
        } else if self.funds.ahead_reads > 0 || (1..BEHIND_READS_BEFORE_PROTECT).contains(&self.funds.behind_reads) {
            self.funds.read_at(now.saturating_add(self.setup.limits.pauses.prepare_retry));
        }
    }

    /// Checks slots whose nonce is consumed although none of our hashes was seen. Each hash is looked up again. If that
    /// finds nothing again, the blocks are scanned (`reconcile`). If the nonce is consumed in a final block and no
    /// transaction explains it, the lane enters PROTECT. Only a scan without a gap proves that the nonce is lost (P4).
    fn check_consumed_slots(&mut self, account: AccountFacts, now: Tick) {
        let finalized = account.finalized.unwrap_or_default();
        let consumed = account.latest.max(finalized);
        // A reorg may have lowered the account's nonce. Earlier lookups prove nothing then.
        let unused: Vec<Nonce> =
            self.ledger.slots.unmined().range(consumed..).copied().take(LOST_SLOTS_AT_ONCE).collect();
        for nonce in unused {
            self.ledger.slots.update(nonce, |slot| slot.forget_missed_lookups());
        }
        let used_up: Vec<Nonce> =
            self.ledger.slots.unmined().range(..consumed).copied().take(LOST_SLOTS_AT_ONCE).collect();
        let mut watched = Vec::new();
        let (mut lost, mut again) = (None, false);
        for nonce in used_up {
            let misses = self.ledger.slots.update(nonce, OpenSlot::count_missed_lookup).flatten();
            let (Some(misses), Some(slot)) = (misses, self.ledger.slots.get(nonce)) else { continue };
            watched.extend(slot.hashes().map(|hash| WatchRequest { hash, known_block: None, look_up: true }));
            // A reserved nonce has no hash, but is checked again as well.
            again = true;
            // The caller of a reservation may have sent its transaction without submitting it here. Only a scan can
            // tell.
            let was_reserved = slot.kind == SlotKind::Reservation;
            if misses >= MISSES_BEFORE_PROTECT && nonce < finalized && !was_reserved {
                lost = lost.or(Some(nonce));
            }
        }
        // A lane that adopts waits for the scan instead.
        if let Some(nonce) = lost.filter(|_| !self.adopts()) {
            let text = format!("nonce {nonce} is consumed in a final block, and no attempt of it is known there");
            self.want_protect(ProtectCode::ForeignTransaction, &text);
        }
        if !watched.is_empty() {
            self.outbox.effects.push(Effect::Watch(watched));
        }
        if again {
            self.funds.read_at(now.saturating_add(self.setup.limits.pauses.prepare_retry));
        }
    }

    pub(in crate::lane) fn cannot_fill(&mut self, sent: &SentTx) {
        let text = format!("nonce {} cannot be filled: nodes reject the filler: {}", sent.nonce, sent.text);
        self.want_protect(ProtectCode::CannotFill, &text);
    }

    pub(in crate::lane) fn check_slots_have_no_hole(&mut self) {
        if let Some(hole) = self.first_hole() {
            let text = format!("nonce {hole} is below the cursor but has no slot");
            self.want_protect(ProtectCode::MissingSlot, &text);
        }
    }

    /// The lowest nonce below the cursor that has no slot and is not closed.
    pub(in crate::lane) fn first_hole(&self) -> Option<u64> {
        let cursor = self.ledger.cursor.as_ref()?;
        let mut expected = cursor.open_nonce.get();
        for slot in self.ledger.slots.iter() {
            if slot.nonce.get() != expected {
                break;
            }
            expected += 1;
        }
        (expected != cursor.next_nonce.get()).then_some(expected)
    }

    /// Enters PROTECT with the next commit. A lane that is already in PROTECT keeps its first reason.
    pub(in crate::lane) fn want_protect(&mut self, code: ProtectCode, text: &str) {
        let cursor = self.ledger.cursor.get_or_insert_with(|| never_begun(&self.setup));
        if !cursor.is_protected() && self.commits.protection.is_none() {
            self.commits.protection = Some(Protection { code, detail: NodeText::new(text) });
        }
    }
}

impl OpenSlot {
    /// Counts the lookups since the last call, for a consumed nonce that no known block explains. Returns the number of
    /// lookups in a row at which all hashes were missing.
    fn count_missed_lookup(&mut self) -> Option<u32> {
        // Lookups from before the nonce was consumed prove nothing.
        let missing = self.is_unmined() && self.take_missing();
        let MiningState::Unmined(unmined) = &mut self.mining else { return None };
        let misses = unmined.missed_lookups.map_or(0, |misses| misses.saturating_add(u32::from(missing)));
        unmined.missed_lookups = Some(misses);
        Some(misses)
    }
}
