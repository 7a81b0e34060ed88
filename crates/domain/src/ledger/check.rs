//! The rules of a commit: whether a store may apply it.
//!
//! Every store calls [`check`] with the facts from its own rows. So a commit gets the same answer from all of them.

use std::collections::{BTreeMap, BTreeSet};

use super::LaneCommit;
use super::facts::{CommitFacts, LeaseFact};
use crate::attempt::Attempt;
use crate::id::TxId;
use crate::nonce::Nonce;
use crate::reservation::{Reservation, ReservationStatus, ReservationStep};
use crate::slot::SlotKind;
use crate::state::TxState;

#[cfg(test)]
mod tests;

/// Why a store does not apply a commit. Nothing of it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The lease is lost: the lane must stop at once.
    Fenced,
    /// Another transaction writes the lease row: the commit goes into the next flush.
    Busy,
    /// The store lost commits. Either the lane has not acknowledged the loss, or it is not reconciled and the commit
    /// would end an intent. The lane must load itself again.
    Regressed,
    /// A row is not what the lane knew. The lane must load itself again.
    Conflict(Conflict),
}

/// The row that is not what the lane knew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The cursor has another version, or the commit closes a slot whose intent still holds it, or it adds an attempt
    /// to a nonce that is reserved or recyclable.
    Cursor,
    /// The intent has another version, or is not the lane's.
    Tx(TxId),
    /// The nonce is bound already, or is not bound, or its attempts are not what the commit says.
    Slot(Nonce),
    /// The reservation does not permit the step.
    Reservation(Nonce),
}

/// Decides whether `commit` may be applied to the rows that `facts` describe. Returns the reservations that the commit
/// changes, each as the commit leaves it.
///
/// The order of the rules is part of the contract: a commit with several faults gets the same answer from every store.
pub fn check(commit: &LaneCommit, facts: &CommitFacts) -> Result<Vec<Reservation>, Rejection> {
    check_fence(commit, facts)?;
    check_regression(commit, facts)?;
    check_rows(commit, facts).map_err(Rejection::Conflict)
}

fn check_rows(commit: &LaneCommit, facts: &CommitFacts) -> Result<Vec<Reservation>, Conflict> {
    check_cursor(commit, facts)?;
    check_changes(commit, facts)?;
    check_slots(commit, facts)?;
    check_attempts(commit, facts)?;
    check_reports(commit, facts)?;
    let reservations = check_reservations(commit, facts)?;
    check_reserved_attempts(commit, facts, &reservations)?;
    check_closing(commit, facts)?;
    Ok(reservations.into_iter().map(|(nonce, status)| Reservation { nonce, status }).collect())
}

/// P5: the lease must hold, and no later owner may have written the rows. The second rule cannot fail while the first
/// holds; it is a second fence.
fn check_fence(commit: &LaneCommit, facts: &CommitFacts) -> Result<(), Rejection> {
    let token = Some(commit.lease().token());
    match facts.lease {
        LeaseFact::Busy => return Err(Rejection::Busy),
        LeaseFact::Lost => return Err(Rejection::Fenced),
        LeaseFact::Held => {}
    }
    let named = commit.changes().iter().filter_map(|change| facts.intents.get(&change.tx_id()));
    let is_newer = facts.written_by > token || named.into_iter().any(|intent| intent.written_by > token);
    if is_newer { Err(Rejection::Fenced) } else { Ok(()) }
}

/// After a loss of commits, the lane first acknowledges it, and ends no intent before it is reconciled.
fn check_regression(commit: &LaneCommit, facts: &CommitFacts) -> Result<(), Rejection> {
    let unacknowledged = facts.regressed && !commit.acknowledges_regression();
    let unreconciled = facts.cursor.is_some_and(|cursor| cursor.unreconciled);
    if unacknowledged || (unreconciled && commit.ends_an_intent()) { Err(Rejection::Regressed) } else { Ok(()) }
}

/// The cursor's row has the version that the lane knew; version 0 is no row.
fn check_cursor(commit: &LaneCommit, facts: &CommitFacts) -> Result<(), Conflict> {
    let version = facts.cursor.map_or(0, |cursor| cursor.version);
    match commit.cursor() {
        Some(change) if change.from_version() != version => Err(Conflict::Cursor),
        _ => Ok(()),
    }
}

/// Each change starts from the version that the row has, or that the change before it in this commit leads to.
fn check_changes(commit: &LaneCommit, facts: &CommitFacts) -> Result<(), Conflict> {
    let mut versions = BTreeMap::new();
    for change in commit.changes() {
        let id = change.tx_id();
        let row = facts.intents.get(&id).map(|intent| intent.version);
        let version = versions.insert(id, change.to_version()).or(row);
        if version != Some(change.from_version()) {
            return Err(Conflict::Tx(id));
        }
    }
    Ok(())
}

/// A lane binds nonces in order and each nonce once, so a new slot lies at or above the cursor's next nonce. Attempts
/// and claims need a slot.
fn check_slots(commit: &LaneCommit, facts: &CommitFacts) -> Result<(), Conflict> {
    let next = facts.cursor.map_or(Nonce::ZERO, |cursor| cursor.next_nonce);
    let mut fresh = BTreeSet::new();
    for slot in commit.slots() {
        let is_bound = slot.nonce < next;
        if is_bound || !fresh.insert(slot.nonce) {
            return Err(Conflict::Slot(slot.nonce));
        }
    }
    let attempts = commit.attempts().iter().map(|attempt| attempt.nonce);
    let claims = commit.claims().iter().map(|claim| claim.nonce);
    let is_unbound = |nonce: &Nonce| !fresh.contains(nonce) && !facts.slots.contains(nonce);
    attempts.chain(claims).find(is_unbound).map_or(Ok(()), |nonce| Err(Conflict::Slot(nonce)))
}

/// Ordinals and hashes of a slot are unique. Bytes are signed for one nonce, so the attempts of that nonce are enough.
fn check_attempts(commit: &LaneCommit, facts: &CommitFacts) -> Result<(), Conflict> {
    let (mut ordinals, mut hashes) = (BTreeSet::new(), BTreeSet::new());
    for new in commit.attempts() {
        let known = facts.attempts.get(&new.nonce).map_or(&[][..], Vec::as_slice);
        let same_ordinal = known.iter().any(|attempt| attempt.ordinal == new.ordinal);
        let same_hash = known.iter().any(|attempt| attempt.hash == new.hash);
        let is_twin = !ordinals.insert((new.nonce, new.ordinal)) || !hashes.insert(new.hash);
        if same_ordinal || same_hash || is_twin || new.ordinal > Attempt::MAX_ORDINAL {
            return Err(Conflict::Slot(new.nonce));
        }
    }
    Ok(())
}

/// Only durable attempts are sent (P3), so a report never names an attempt of the same commit.
fn check_reports(commit: &LaneCommit, facts: &CommitFacts) -> Result<(), Conflict> {
    for report in commit.reports() {
        let known = facts.attempts.get(&report.nonce).map_or(&[][..], Vec::as_slice);
        if !known.iter().any(|attempt| attempt.hash == report.hash) {
            return Err(Conflict::Slot(report.nonce));
        }
    }
    Ok(())
}

/// Each step is checked against the reservations as the steps before it left them. Returns what the steps changed.
fn check_reservations(
    commit: &LaneCommit,
    facts: &CommitFacts,
) -> Result<BTreeMap<Nonce, ReservationStatus>, Conflict> {
    let mut changed: BTreeMap<Nonce, ReservationStatus> = BTreeMap::new();
    for step in commit.reservations() {
        let nonce = step.nonce();
        let before = changed.get(&nonce).or_else(|| facts.reservations.get(&nonce));
        let permitted = match (step, before) {
            (ReservationStep::Reserve { .. }, _) => match smallest_recyclable(facts, &changed) {
                Some(smallest) => smallest == nonce,
                None => before.is_none() && is_new_reservation(commit, nonce),
            },
            (
                ReservationStep::Use { lock_owner: by, .. } | ReservationStep::Release { lock_owner: by, .. },
                Some(ReservationStatus::Reserved { lock_owner, locked_until, .. }),
            ) => lock_owner == by && *locked_until > facts.now,
            (
                ReservationStep::Expire { .. } | ReservationStep::Cancel { .. },
                Some(ReservationStatus::Reserved { locked_until, .. }),
            ) => *locked_until <= facts.now,
            (ReservationStep::Fill { .. }, before) => before == Some(&ReservationStatus::Recyclable),
            _ => false,
        };
        if !permitted {
            return Err(Conflict::Reservation(nonce));
        }
        let after = step.status_after(before, facts.now);
        changed.insert(nonce, after);
    }
    Ok(changed)
}

/// A slot that this commit closes is still open here: the lane saw it as open when it made the commit.
fn smallest_recyclable(facts: &CommitFacts, changed: &BTreeMap<Nonce, ReservationStatus>) -> Option<Nonce> {
    let open = facts.open_nonce();
    let is_recyclable =
        |(nonce, status): (&Nonce, &ReservationStatus)| (*status == ReservationStatus::Recyclable).then_some(*nonce);
    let unchanged = facts.reservations.range(open..).filter(|(nonce, _)| !changed.contains_key(nonce));
    unchanged.chain(changed.range(open..)).filter_map(is_recyclable).min()
}

fn is_new_reservation(commit: &LaneCommit, nonce: Nonce) -> bool {
    commit.slots().iter().any(|slot| slot.nonce == nonce && slot.kind == SlotKind::Reservation)
}

/// A nonce that is reserved, or may be reserved again, has no attempt. Otherwise two transactions could claim it.
fn check_reserved_attempts(
    commit: &LaneCommit,
    facts: &CommitFacts,
    changed: &BTreeMap<Nonce, ReservationStatus>,
) -> Result<(), Conflict> {
    let is_unused = |nonce: &Nonce| match changed.get(nonce).or_else(|| facts.reservations.get(nonce)) {
        None | Some(ReservationStatus::Used { .. }) => false,
        Some(ReservationStatus::Reserved { .. } | ReservationStatus::Recyclable) => true,
    };
    if commit.attempts().iter().any(|attempt| is_unused(&attempt.nonce)) { Err(Conflict::Cursor) } else { Ok(()) }
}

/// After the changes of this commit, no intent below the new open nonce holds its nonce. A lane is loaded from the open
/// nonce on, so such an intent would never be seen again.
fn check_closing(commit: &LaneCommit, facts: &CommitFacts) -> Result<(), Conflict> {
    let open = commit.cursor().map_or(Nonce::ZERO, |change| change.to().open_nonce);
    if open <= facts.open_nonce() {
        return Ok(());
    }
    let after: BTreeMap<TxId, &TxState> = commit.changes().iter().map(|change| (change.tx_id(), change.to())).collect();
    let holds = |state: &TxState| state.bound().is_some_and(|bound| bound.nonce < open);
    let is_held = after.values().any(|state| holds(state)) || facts.holders.iter().any(|id| !after.contains_key(id));
    if is_held { Err(Conflict::Cursor) } else { Ok(()) }
}
