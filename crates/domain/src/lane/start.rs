//! Where a new lane begins, and what stops one: the ledger compared with the chain's counts (P7).

use crate::cursor::{Cursor, ProtectCode, Protection};
use crate::nonce::Nonce;
use crate::policy::StartFrom;
use crate::slot::SlotKind;
use crate::text::NodeText;
use crate::time::Tick;

use super::effect::{Effect, Watched};
use super::fact::{AccountFacts, SentTx};
use super::open_slot::Seen;
use super::{Lane, LaneSetup};

/// Looks in a row at which the chain must be ahead before the lane stops. An endpoint that lags cannot say so.
const LOOKS_BEFORE_PROTECT: u32 = 2;

/// Looks in a row at which the final count must be lower than it was. A node that takes over may see the chain a while later than
/// the one before it did; nothing is bound until it has caught up.
const BEHIND_LOOKS_BEFORE_PROTECT: u32 = 30;

/// Looks in a row at which all hashes of a slot must be missing, while its nonce is used up, before the lane stops. More than
/// for counts: an endpoint that lags behind the final block knows no receipt, and says so each time.
const LOST_LOOKS_BEFORE_PROTECT: u32 = 5;

/// Slots that are looked for at once, the lowest first: nonces are used in order, so the lowest explains the others.
const LOST_SLOTS_AT_ONCE: usize = 64;

impl Lane {
    pub(super) fn account(&mut self, account: Option<AccountFacts>, now: Tick) {
        let limits = &self.setup.limits;
        let waits_for_funds = !self.slots.short().is_empty();
        let soon = account.is_none() || waits_for_funds;
        let pause = if soon { limits.prepare_retry } else { limits.account_interval };
        let before = self.purse.account.map(|account| account.balance);
        self.purse.answer(account, now.saturating_add(pause));
        let Some(account) = account else { return };
        self.look_for_funds(before, account.balance, now);
        self.line.try_again();
        match self.cursor.clone() {
            None if self.chain_is_broken() => self.purse.read_at(now.saturating_add(self.setup.limits.prepare_retry)),
            None => self.begin(account, now),
            Some(cursor) => self.compare(&cursor, account, now),
        }
    }

    /// A lane that has never written anything.
    fn begin(&mut self, account: AccountFacts, now: Tick) {
        let count = account.latest;
        match self.setup.policy.nonce.start_from {
            StartFrom::Nonce(start) if count == start => self.begin_at(start, account, now),
            StartFrom::Nonce(start) if count > start && self.adopts() => self.begin_when_settled(account, now),
            StartFrom::Nonce(start) if count > start => {
                let text = format!(
                    "the account has sent {count} transactions already, and the lane is to start at {start}; \
                     set start_from = \"chain\" to go on from there"
                );
                self.want_protect(ProtectCode::HistoryWithoutStart, &text);
            }
            StartFrom::Nonce(start) => {
                let text =
                    format!("the lane is to start at {start}, but the account has sent only {count} transactions");
                self.want_protect(ProtectCode::MissingSlot, &text);
            }
            StartFrom::Chain => self.begin_when_settled(account, now),
        }
    }

    /// Where the chain says, unless something of the account is still under way.
    fn begin_when_settled(&mut self, account: AccountFacts, now: Tick) {
        let count = account.latest;
        if account.pending == count && account.finalized == Some(count) {
            self.begin_at(count, account, now);
        } else {
            self.purse.read_at(now.saturating_add(self.setup.limits.prepare_retry));
        }
    }

    fn begin_at(&mut self, start: Nonce, account: AccountFacts, now: Tick) {
        // The newest of what was sent before us need not be final yet.
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
                let text = format!("the account's final count is {finalized}, but the ledger knows of {next}");
                self.want_protect(ProtectCode::ReservationRequest, &text);
            }
            self.purse.behind = if finalized < cursor.final_nonce { self.purse.behind.saturating_add(1) } else { 0 };
            if self.purse.behind >= BEHIND_LOOKS_BEFORE_PROTECT {
                let text = format!("the account's final count was {} and is {finalized} now", cursor.final_nonce);
                self.want_protect(ProtectCode::ChainRegressed, &text);
            }
        }
        self.look_for_lost_slots(account, now);
        let ahead = account.pending.max(account.latest);
        self.purse.ahead = if ahead > next { self.purse.ahead.saturating_add(1) } else { 0 };
        if self.purse.ahead >= LOOKS_BEFORE_PROTECT && !self.adopts() {
            let text = format!("the account's count with pending ones is {ahead}, but the ledger knows of {next}");
            self.want_protect(ProtectCode::PendingAhead, &text);
        } else if self.purse.ahead > 0 || (1..BEHIND_LOOKS_BEFORE_PROTECT).contains(&self.purse.behind) {
            self.purse.read_at(now.saturating_add(self.setup.limits.prepare_retry));
        }
    }

    /// Slots whose nonce is used up while none of our hashes was seen. Each is looked up again by hash; when that finds nothing
    /// again, the blocks are read (`survey`); and when it is final and nobody can tell by what, the lane stops. Only a scan without
    /// a hole says that it is lost (P4).
    fn look_for_lost_slots(&mut self, account: AccountFacts, now: Tick) {
        let mut watched = Vec::new();
        let (mut lost, mut again) = (None, false);
        let finalized = account.finalized.unwrap_or_default();
        let used_up = self.slots.unmined().range(..account.latest.max(finalized)).copied();
        let used_up: Vec<Nonce> = used_up.take(LOST_SLOTS_AT_ONCE).collect();
        // A reorg may have taken the count back: what was looked for before says nothing then.
        let unused = self.slots.unmined().range(account.latest.max(finalized)..).copied();
        let unused: Vec<Nonce> = unused.take(LOST_SLOTS_AT_ONCE).collect();
        for nonce in unused {
            self.slots.update(nonce, |slot| slot.lost_looks = None);
        }
        for nonce in used_up {
            let looked = self.slots.update(nonce, |slot| {
                if slot.seen != Seen::Nowhere {
                    return false;
                }
                // What was missing before its nonce was used up says nothing.
                let missing = slot.take_missing();
                let looks = slot.lost_looks.map_or(0, |looks| looks.saturating_add(u32::from(missing)));
                slot.lost_looks = Some(looks);
                // What was lent may have been sent by its borrower, who never told us: only the blocks can tell.
                let was_lent = slot.kind == SlotKind::Reservation;
                if looks >= LOST_LOOKS_BEFORE_PROTECT && nonce < finalized && !was_lent {
                    lost = lost.or(Some(nonce));
                }
                true
            });
            if let Some(slot) = self.slots.get(nonce).filter(|_| looked == Some(true)) {
                watched.extend(slot.hashes().map(|hash| Watched { hash, known: None, look_up: true }));
                // Also for what is lent, which has none.
                again = true;
            }
        }
        // What adopts waits for the survey instead.
        if let Some(nonce) = lost.filter(|_| !self.adopts()) {
            let text = format!("nonce {nonce} is used up at a final block, and none of our hashes is known there");
            self.want_protect(ProtectCode::ForeignTransaction, &text);
        }
        if !watched.is_empty() {
            self.effects.push(Effect::Watch(watched));
        }
        if again {
            self.purse.read_at(now.saturating_add(self.setup.limits.prepare_retry));
        }
    }

    pub(super) fn cannot_fill(&mut self, sent: &SentTx) {
        let text = format!("nonce {} cannot even be filled: {}", sent.nonce, sent.text);
        self.want_protect(ProtectCode::CannotFill, &text);
    }

    pub(super) fn check_slots_have_no_hole(&mut self) {
        if let Some(hole) = self.first_hole() {
            let text = format!("nonce {hole} is below the cursor and has no slot");
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

    /// With the next commit; a lane that is stopped already says why only once.
    pub(super) fn want_protect(&mut self, code: ProtectCode, text: &str) {
        let cursor = self.cursor.get_or_insert_with(|| never_begun(&self.setup));
        if !cursor.is_protected() && self.protect.is_none() {
            self.protect = Some(Protection { code, detail: NodeText::new(text) });
        }
    }
}

/// The cursor of a lane that has to stop before it began.
pub(super) fn never_begun(setup: &LaneSetup) -> Cursor {
    let start = match setup.policy.nonce.start_from {
        StartFrom::Nonce(start) => start,
        StartFrom::Chain => Nonce::ZERO,
    };
    Cursor { final_nonce: Nonce::ZERO, ..Cursor::starting_at(start) }
}
