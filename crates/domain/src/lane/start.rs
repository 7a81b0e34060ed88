//! The start of a new lane, and the comparison of the ledger with the account's nonces that may lead to PROTECT (P7).

use crate::cursor::{Cursor, ProtectCode, Protection};
use crate::nonce::Nonce;
use crate::policy::StartFrom;
use crate::slot::SlotKind;
use crate::text::NodeText;
use crate::time::Tick;

use super::effect::{Effect, WatchRequest};
use super::fact::{AccountFacts, SentTx};
use super::open_slot::MiningState;
use super::{Lane, LaneSetup};

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
    pub(super) fn account(&mut self, account: Option<AccountFacts>, now: Tick) {
        let limits = &self.setup.limits;
        let waits_for_funds = !self.slots.short().is_empty();
        let soon = account.is_none() || waits_for_funds;
        let pause = if soon { limits.prepare_retry } else { limits.account_interval };
        let before = self.funds.account.map(|account| account.balance);
        self.funds.answer(account, now.saturating_add(pause));
        let Some(account) = account else { return };
        self.retry_unfunded(before, account.balance, now);
        self.queue.retry_postponed();
        match self.cursor.clone() {
            None if self.has_finality_violation() => {
                self.funds.read_at(now.saturating_add(self.setup.limits.prepare_retry))
            }
            None => self.begin(account, now),
            Some(cursor) => self.compare(&cursor, account, now),
        }
    }

    /// Starts a lane that has never written a cursor.
    fn begin(&mut self, account: AccountFacts, now: Tick) {
        let count = account.latest;
        match self.setup.policy.nonce.start_from {
            StartFrom::Nonce(start) if count == start => self.begin_at(start, account, now),
            StartFrom::Nonce(start) if count > start && self.adopts() => self.begin_when_settled(account, now),
            StartFrom::Nonce(start) if count > start => {
                let text = format!(
                    "the account has already sent {count} transactions, but the lane is configured to start at nonce \
                     {start}; set start_from = \"chain\" to continue from the account's nonce"
                );
                self.want_protect(ProtectCode::HistoryWithoutStart, &text);
            }
            StartFrom::Nonce(start) => {
                let text = format!(
                    "the lane is configured to start at nonce {start}, but the account has sent only {count} \
                     transactions"
                );
                self.want_protect(ProtectCode::MissingSlot, &text);
            }
            StartFrom::Chain => self.begin_when_settled(account, now),
        }
    }

    /// Starts at the account's nonce, unless a transaction of the account is pending or not final.
    fn begin_when_settled(&mut self, account: AccountFacts, now: Tick) {
        let count = account.latest;
        if account.pending == count && account.finalized == Some(count) {
            self.begin_at(count, account, now);
        } else {
            self.funds.read_at(now.saturating_add(self.setup.limits.prepare_retry));
        }
    }

    fn begin_at(&mut self, start: Nonce, account: AccountFacts, now: Tick) {
        // The newest of the account's earlier transactions may not be final yet.
        let finalized = account.finalized.unwrap_or(Nonce::ZERO).min(start);
        let cursor = Cursor { final_nonce: finalized, ..Cursor::starting_at(start) };
        self.cursor = Some(cursor.clone());
        self.compare(&cursor, account, now);
    }

    fn compare(&mut self, cursor: &Cursor, account: AccountFacts, now: Tick) {
        #[cfg(feature = "mistakes")]
        if crate::mistakes::made(crate::mistakes::Mistake::JumpToChain) {
            return self.jump_to_chain(account);
        }
        let next = cursor.next_nonce;
        if let Some(finalized) = account.finalized {
            if finalized > next && !self.adopts() {
                let text = format!("the account's final nonce is {finalized}, but the ledger's next nonce is {next}");
                self.want_protect(ProtectCode::ExternalNonce, &text);
            }
            self.funds.behind_reads =
                if finalized < cursor.final_nonce { self.funds.behind_reads.saturating_add(1) } else { 0 };
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
            self.funds.read_at(now.saturating_add(self.setup.limits.prepare_retry));
        }
    }

    /// Checks slots whose nonce is consumed although none of our hashes was seen. Each hash is looked up again. If that
    /// finds nothing again, the blocks are scanned (`scanning`). If the nonce is consumed in a final block and no
    /// transaction explains it, the lane enters PROTECT. Only a scan without a gap proves that the nonce is lost (P4).
    fn check_consumed_slots(&mut self, account: AccountFacts, now: Tick) {
        let mut watched = Vec::new();
        let (mut lost, mut again) = (None, false);
        let finalized = account.finalized.unwrap_or_default();
        let used_up = self.slots.unmined().range(..account.latest.max(finalized)).copied();
        let used_up: Vec<Nonce> = used_up.take(LOST_SLOTS_AT_ONCE).collect();
        // A reorg may have lowered the account's nonce. Earlier lookups prove nothing then.
        let unused = self.slots.unmined().range(account.latest.max(finalized)..).copied();
        let unused: Vec<Nonce> = unused.take(LOST_SLOTS_AT_ONCE).collect();
        for nonce in unused {
            self.slots.update(nonce, |slot| slot.missed_lookups = None);
        }
        for nonce in used_up {
            let was_checked = self.slots.update(nonce, |slot| {
                if slot.mining != MiningState::Unmined {
                    return false;
                }
                // Lookups from before the nonce was consumed prove nothing.
                let missing = slot.take_missing();
                let misses = slot.missed_lookups.map_or(0, |misses| misses.saturating_add(u32::from(missing)));
                slot.missed_lookups = Some(misses);
                // The caller of a reservation may have sent its transaction without submitting it here. Only a scan can
                // tell.
                let was_reserved = slot.kind == SlotKind::Reservation;
                if misses >= MISSES_BEFORE_PROTECT && nonce < finalized && !was_reserved {
                    lost = lost.or(Some(nonce));
                }
                true
            });
            if let Some(slot) = self.slots.get(nonce).filter(|_| was_checked == Some(true)) {
                watched.extend(slot.hashes().map(|hash| WatchRequest { hash, known_block: None, look_up: true }));
                // A reserved nonce has no hash, but is checked again as well.
                again = true;
            }
        }
        // A lane that adopts waits for the scan instead.
        if let Some(nonce) = lost.filter(|_| !self.adopts()) {
            let text = format!("nonce {nonce} is consumed in a final block, and no attempt of it is known there");
            self.want_protect(ProtectCode::ForeignTransaction, &text);
        }
        if !watched.is_empty() {
            self.effects.push(Effect::Watch(watched));
        }
        if again {
            self.funds.read_at(now.saturating_add(self.setup.limits.prepare_retry));
        }
    }

    pub(super) fn cannot_fill(&mut self, sent: &SentTx) {
        let text = format!("nonce {} cannot be filled: nodes reject the filler: {}", sent.nonce, sent.text);
        self.want_protect(ProtectCode::CannotFill, &text);
    }

    pub(super) fn check_slots_have_no_hole(&mut self) {
        if let Some(hole) = self.first_hole() {
            let text = format!("nonce {hole} is below the cursor but has no slot");
            self.want_protect(ProtectCode::MissingSlot, &text);
        }
    }

    /// The lowest nonce below the cursor that has no slot and is not closed.
    pub(super) fn first_hole(&self) -> Option<u64> {
        let cursor = self.cursor.as_ref()?;
        let mut expected = cursor.open_nonce.get();
        for slot in self.slots.iter() {
            if slot.nonce.get() != expected {
                break;
            }
            expected += 1;
        }
        (expected != cursor.next_nonce.get()).then_some(expected)
    }

    /// Enters PROTECT with the next commit. A lane that is already in PROTECT keeps its first reason.
    pub(super) fn want_protect(&mut self, code: ProtectCode, text: &str) {
        let cursor = self.cursor.get_or_insert_with(|| never_begun(&self.setup));
        if !cursor.is_protected() && self.protect.is_none() {
            self.protect = Some(Protection { code, detail: NodeText::new(text) });
        }
    }
}

/// The cursor of a lane that enters PROTECT before it has started.
pub(super) fn never_begun(setup: &LaneSetup) -> Cursor {
    let start = match setup.policy.nonce.start_from {
        StartFrom::Nonce(start) => start,
        StartFrom::Chain => Nonce::ZERO,
    };
    Cursor { final_nonce: Nonce::ZERO, ..Cursor::starting_at(start) }
}
