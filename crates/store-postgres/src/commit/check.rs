//! Between the flights: the domain's rules decide about each lane. A lane is written as a whole or left out as a whole.
//!
//! Two rules are also demanded by statements of the second flight, which read the rows anyway: an attempt at a reserved
//! nonce is not written, and a slot is not closed while an intent holds it (`CHECK_CLOSED`). The facts hold no holders,
//! so the second rule is checked there only.

use std::collections::HashSet;

use gapless_domain::ledger::{Rejection, check};
use gapless_domain::{LaneCommit, Reservation};
use gapless_store::{CommitVerdict, Conflict, StoreError};
use gapless_store_sql::signed;

use super::facts::Facts;
use crate::store::PgStore;

/// A lane that passed the check, with the values that only the database knows.
pub(super) struct Planned<'a> {
    pub(super) commit: &'a LaneCommit,
    /// The epoch that the cursor will carry.
    pub(super) epoch: i64,
    /// The open nonce before this commit.
    pub(super) open_nonce: i64,
    /// The reservations that the commit changes, as it leaves them.
    pub(super) reservations: Vec<Reservation>,
}

pub(super) fn plan<'a>(
    store: &PgStore,
    commits: &[&'a LaneCommit],
    facts: &Facts,
) -> Result<(Vec<CommitVerdict>, Vec<Planned<'a>>), StoreError> {
    let mut seen = HashSet::new();
    let mut verdicts = Vec::with_capacity(commits.len());
    let mut planned = Vec::new();
    for commit in commits {
        if commit.lease().owner() != &store.owner {
            return Err(StoreError::Setup("a commit carries the lease of another process".to_owned()));
        }
        // A lane has one commit in flight: a second one cannot know what the first one changes.
        let verdict = if seen.insert(commit.lease().submitter().as_str()) {
            plan_one(commit, facts)
        } else {
            Err(Rejection::Conflict(Conflict::Cursor))
        };
        verdicts.push(match verdict {
            Ok(good) => {
                planned.push(good);
                CommitVerdict::Done
            }
            Err(rejection) => rejection.into(),
        });
    }
    Ok((verdicts, planned))
}

fn plan_one<'a>(commit: &'a LaneCommit, facts: &Facts) -> Result<Planned<'a>, Rejection> {
    let lane = facts.lanes.get(commit.lease().submitter().as_str()).ok_or(Rejection::Fenced)?;
    let reservations = check(commit, lane)?;
    // A lane that has not acknowledged the newest epoch passes only with its acknowledgement.
    Ok(Planned { commit, epoch: facts.epoch, open_nonce: signed(lane.open_nonce().get()), reservations })
}
