//! The start of a new lane: the first nonce, as the policy and the account say.

use crate::cursor::{Cursor, ProtectCode};
use crate::nonce::Nonce;
use crate::policy::StartFrom;
use crate::time::Tick;

use crate::lane::Lane;
use crate::lane::fact::AccountFacts;
use crate::lane::setup::LaneSetup;

impl Lane {
    /// Starts a lane that has never written a cursor.
    pub(in crate::lane) fn begin(&mut self, account: AccountFacts, now: Tick) {
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
            self.funds.read_at(now.saturating_add(self.setup.limits.pauses.prepare_retry));
        }
    }

    fn begin_at(&mut self, start: Nonce, account: AccountFacts, now: Tick) {
        // The newest of the account's earlier transactions may not be final yet.
        let finalized = account.finalized.unwrap_or(Nonce::ZERO).min(start);
        let cursor = Cursor { final_nonce: finalized, ..Cursor::starting_at(start) };
        self.ledger.cursor = Some(cursor.clone());
        self.compare(&cursor, account, now);
    }
}

/// The cursor of a lane that enters PROTECT before it has started.
pub(in crate::lane) fn never_begun(setup: &LaneSetup) -> Cursor {
    let start = match setup.policy.nonce.start_from {
        StartFrom::Nonce(start) => start,
        StartFrom::Chain => Nonce::ZERO,
    };
    Cursor { final_nonce: Nonce::ZERO, ..Cursor::starting_at(start) }
}
