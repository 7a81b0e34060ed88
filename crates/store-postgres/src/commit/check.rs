//! Between the flights: is every row what its lane thought? A lane is good whole or left out whole.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::SystemTime;

use gapless_domain::{LaneCommit, Nonce, Reservation, ReservationStatus, ReservationStep, SendReport, SlotKind};
use gapless_store::{CommitVerdict, Conflict, StoreError};
use gapless_store_sql::signed;

use super::facts::Facts;
use super::token;
use crate::rows::timestamp;
use crate::store::PgStore;

/// A good lane, with what only the database knows filled in.
pub(super) struct Planned<'a> {
    pub(super) commit: &'a LaneCommit,
    /// The epoch that its cursor will carry.
    pub(super) epoch: i64,
    /// Where its open slots began until now.
    pub(super) open_nonce: i64,
    /// Its reservations as they will be.
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
        // One outstanding commit a lane: a second one cannot know what the first will have changed.
        let verdict = if seen.insert(commit.lease().submitter().as_str()) {
            check(commit, facts)
        } else {
            Err(CommitVerdict::Conflict(Conflict::Cursor))
        };
        verdicts.push(match verdict {
            Ok(good) => {
                planned.push(good);
                CommitVerdict::Done
            }
            Err(verdict) => verdict,
        });
    }
    Ok((verdicts, planned))
}

fn check<'a>(commit: &'a LaneCommit, facts: &Facts) -> Result<Planned<'a>, CommitVerdict> {
    let lane = commit.lease().submitter().as_str();
    if !facts.locked.contains(lane) {
        return Err(if facts.held.contains(lane) { CommitVerdict::Busy } else { CommitVerdict::Fenced });
    }
    let epoch = check_cursor(commit, facts)?;
    check_txs(commit, facts)?;
    let fresh = check_slots(commit, facts)?;
    let reservations = check_reservations(commit, facts, &fresh)?;
    let open_nonce = facts.cursors.get(lane).map_or(0, |cursor| cursor.open_nonce);
    Ok(Planned { commit, epoch, open_nonce, reservations })
}

fn check_cursor(commit: &LaneCommit, facts: &Facts) -> Result<i64, CommitVerdict> {
    let lane = commit.lease().submitter().as_str();
    let row = facts.cursors.get(lane);
    if row.is_some_and(|row| row.token > token(commit)) {
        return Err(CommitVerdict::Fenced);
    }
    let acknowledges = commit.acknowledges_regression();
    let first = facts.first_epochs.get(lane).copied().unwrap_or(facts.epoch);
    let epoch = row.map_or(first, |row| row.epoch);
    let unreconciled = row.is_some_and(|row| row.store_regressed);
    if (epoch < facts.epoch && !acknowledges) || (unreconciled && commit.ends_an_intent()) {
        return Err(CommitVerdict::Regressed);
    }
    if let Some(change) = commit.cursor()
        && signed(change.from_version()) != row.map_or(0, |row| row.version)
    {
        return Err(CommitVerdict::Conflict(Conflict::Cursor));
    }
    Ok(if acknowledges { facts.epoch } else { epoch })
}

/// Several changes of one intent follow each other.
fn check_txs(commit: &LaneCommit, facts: &Facts) -> Result<(), CommitVerdict> {
    let mut versions: HashMap<_, i32> = HashMap::new();
    for change in commit.changes() {
        let conflict = CommitVerdict::Conflict(Conflict::Tx(change.tx_id()));
        let row = facts.txs.get(&change.tx_id().uuid()).ok_or_else(|| conflict.clone())?;
        if row.submitter != commit.lease().submitter().as_str() {
            return Err(conflict);
        }
        if row.token > token(commit) {
            return Err(CommitVerdict::Fenced);
        }
        let version = versions.entry(change.tx_id()).or_insert(row.version);
        if i32::try_from(change.from_version()) != Ok(*version) {
            return Err(conflict);
        }
        *version += 1;
    }
    Ok(())
}

/// Gives the slots that this commit binds. They are above all that were bound before: a lane binds without a gap.
fn check_slots<'a>(commit: &'a LaneCommit, facts: &Facts) -> Result<HashMap<i64, &'a SlotKind>, CommitVerdict> {
    let lane = commit.lease().submitter().as_str();
    let conflict = |nonce: Nonce| CommitVerdict::Conflict(Conflict::Slot(nonce));
    let next_nonce = facts.cursors.get(lane).map_or(0, |cursor| cursor.next_nonce);
    let mut fresh = HashMap::new();
    for slot in commit.slots() {
        let nonce = signed(slot.nonce.get());
        if nonce < next_nonce || fresh.insert(nonce, &slot.kind).is_some() {
            return Err(conflict(slot.nonce));
        }
    }
    let is_bound = |nonce: Nonce| {
        let nonce = signed(nonce.get());
        fresh.contains_key(&nonce) || facts.slots.contains(&(lane.to_owned(), nonce))
    };
    let named =
        commit.attempts().iter().map(|attempt| attempt.nonce).chain(commit.claims().iter().map(|claim| claim.nonce));
    if let Some(loose) = named.into_iter().find(|nonce| !is_bound(*nonce)) {
        return Err(conflict(loose));
    }
    check_attempts(commit, facts)?;
    Ok(fresh)
}

/// Bytes are signed for one nonce, so it is enough to look at what that nonce has.
fn check_attempts(commit: &LaneCommit, facts: &Facts) -> Result<(), CommitVerdict> {
    let lane = commit.lease().submitter().as_str();
    let conflict = |nonce: Nonce| CommitVerdict::Conflict(Conflict::Slot(nonce));
    let known =
        |nonce: Nonce| facts.attempts.get(&(lane.to_owned(), signed(nonce.get()))).map_or(&[][..], Vec::as_slice);
    let mut hashes = HashSet::new();
    let mut ordinals = HashSet::new();
    for attempt in commit.attempts() {
        let ordinal = i16::try_from(attempt.ordinal).map_err(|_| conflict(attempt.nonce))?;
        let hash = attempt.hash.as_slice();
        let exists = known(attempt.nonce).iter().any(|row| row.ordinal == ordinal || row.hash == hash);
        if exists || !ordinals.insert((attempt.nonce, ordinal)) || !hashes.insert(hash) {
            return Err(conflict(attempt.nonce));
        }
    }
    // Nothing can have been sent that was not durable before, so attempts of this very commit do not count.
    let untold = |report: &&SendReport| !known(report.nonce).iter().any(|row| row.hash == report.hash.as_slice());
    commit.reports().iter().find(untold).map_or(Ok(()), |report| Err(conflict(report.nonce)))
}

fn check_reservations(
    commit: &LaneCommit,
    facts: &Facts,
    fresh: &HashMap<i64, &SlotKind>,
) -> Result<Vec<Reservation>, CommitVerdict> {
    let lane = commit.lease().submitter().as_str();
    let mut rows: BTreeMap<i64, Reservation> = facts.reservations.get(lane).cloned().unwrap_or_default();
    let open = facts.cursors.get(lane).map_or(0, |cursor| cursor.open_nonce);
    let mut touched = BTreeMap::new();
    for step in commit.reservations() {
        let nonce = signed(step.nonce().get());
        let next = step_reservation(step, nonce, open, &rows, fresh, facts.now)
            .ok_or(CommitVerdict::Conflict(Conflict::Reservation(step.nonce())))?;
        let next = Reservation { nonce: step.nonce(), status: next };
        rows.insert(nonce, next.clone());
        touched.insert(nonce, next);
    }
    Ok(touched.into_values().collect())
}

/// What the reservation is after the step, or None if the step may not be.
fn step_reservation(
    step: &ReservationStep,
    nonce: i64,
    open: i64,
    rows: &BTreeMap<i64, Reservation>,
    fresh: &HashMap<i64, &SlotKind>,
    now: SystemTime,
) -> Option<ReservationStatus> {
    let now = timestamp(now);
    let status = rows.get(&nonce).map(|row| &row.status);
    match step {
        ReservationStep::Reserve { tx_id, lock_owner, hold, .. } => {
            let mut lendable = rows.range(open..).filter(|(_, row)| row.status == ReservationStatus::Recyclable);
            let smallest = lendable.next().map(|(nonce, _)| *nonce);
            let allowed = match smallest {
                Some(smallest) => smallest == nonce,
                None => status.is_none() && fresh.get(&nonce) == Some(&&SlotKind::Reservation),
            };
            allowed.then(|| ReservationStatus::Reserved {
                tx_id: *tx_id,
                lock_owner: lock_owner.clone(),
                locked_until: now.saturating_add(*hold),
            })
        }
        ReservationStep::Use { lock_owner: by, .. } | ReservationStep::Release { lock_owner: by, .. } => match status {
            Some(ReservationStatus::Reserved { tx_id, lock_owner, locked_until })
                if lock_owner == by && *locked_until > now =>
            {
                let used = matches!(step, ReservationStep::Use { .. });
                Some(if used { ReservationStatus::Used { tx_id: Some(*tx_id) } } else { ReservationStatus::Recyclable })
            }
            _ => None,
        },
        ReservationStep::Fill { .. } => {
            (status == Some(&ReservationStatus::Recyclable)).then_some(ReservationStatus::Used { tx_id: None })
        }
        ReservationStep::Expire { .. } => match status {
            Some(ReservationStatus::Reserved { locked_until, .. }) if *locked_until <= now => {
                Some(ReservationStatus::Recyclable)
            }
            _ => None,
        },
    }
}
