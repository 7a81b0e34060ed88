//! Leases: who may write a lane, by the database's clock.
//!
//! There is one process here, and usually one owner. The rules are those of every store all the same: the owner of a
//! process that died holds its lanes until they run out, and a handle that outlived its lease is fenced.

use gapless_domain::{FencingToken, Lease, OwnerId, SubmitterId, Timestamp};
use gapless_store::codec::{signed, submitter, token};
use gapless_store::{Acquired, LeaseStatus, Renewal};

use crate::error::Failure;
use crate::ledger::{Reading, Writing};
use crate::read::has_work;
use crate::rows;

struct LeaseRow {
    owner: String,
    token: FencingToken,
    expires_at: Timestamp,
}

impl LeaseRow {
    fn is_valid(&self, reading: &Reading<'_>) -> bool {
        self.expires_at > reading.now && self.expires_at <= reading.farthest_end()
    }

    /// May another process take it?
    fn is_free(&self, reading: &Reading<'_>) -> bool {
        self.expires_at.saturating_add(reading.terms.clock_skew) < reading.now
            || self.expires_at > reading.farthest_end()
    }
}

pub(crate) fn acquire(writing: &Writing<'_>, owner: &OwnerId, lanes: &[SubmitterId]) -> Result<Vec<Acquired>, Failure> {
    lanes.iter().map(|lane| acquire_one(writing, owner, lane)).collect()
}

fn acquire_one(writing: &Writing<'_>, owner: &OwnerId, lane: &SubmitterId) -> Result<Acquired, Failure> {
    let token = match lease_row(writing, lane)? {
        None => FencingToken::new(1),
        Some(row) if row.owner == owner.as_str() && row.is_valid(writing) => row.token,
        Some(row) if row.owner == owner.as_str() || row.is_free(writing) => {
            FencingToken::new(row.token.get().saturating_add(1))
        }
        Some(_) => return Ok(Acquired::HeldByOther),
    };
    writing
        .sql
        .prepare_cached(
            "INSERT INTO submitter_lease (submitter, owner_node, fencing_token, expires_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (submitter) DO UPDATE SET owner_node = excluded.owner_node,
                 fencing_token = excluded.fencing_token, expires_at = excluded.expires_at,
                 updated_at = excluded.updated_at",
        )?
        .execute((
            lane.as_str(),
            owner.as_str(),
            signed(token.get()),
            writing.lease_end().as_micros(),
            writing.now.as_micros(),
        ))?;
    Ok(Acquired::Held(Lease::granted(lane.clone(), owner.clone(), token)))
}

pub(crate) fn renew(writing: &Writing<'_>, owner: &OwnerId) -> Result<Renewal, Failure> {
    let now = writing.now.as_micros();
    writing
        .sql
        .prepare_cached(
            "INSERT INTO node (owner_node, seen_at) VALUES (?1, ?2)
             ON CONFLICT (owner_node) DO UPDATE SET seen_at = excluded.seen_at",
        )?
        .execute((owner.as_str(), now))?;
    let statement = writing.sql.prepare_cached(
        "UPDATE submitter_lease SET expires_at = ?2, updated_at = ?3
         WHERE owner_node = ?1 AND expires_at > ?3 AND expires_at <= ?4
         RETURNING submitter, fencing_token",
    )?;
    let params = (owner.as_str(), writing.lease_end().as_micros(), now, writing.farthest_end().as_micros());
    let mut extended = rows::all(statement, params, |row| {
        Ok(Lease::granted(submitter(&rows::text(row, 0)?)?, owner.clone(), token(row.get(1)?)?))
    })?;
    extended.sort_by(|a, b| a.submitter().cmp(b.submitter()));
    Ok(Renewal { extended, busy: Vec::new() })
}

/// Gives back the lanes that somebody else should look at: those that were released and have work left. An idle one is of
/// no interest, or idle lanes would go round for ever.
pub(crate) fn release(writing: &Writing<'_>, owner: &OwnerId, leases: &[Lease]) -> Result<Vec<SubmitterId>, Failure> {
    let mut statement = writing.sql.prepare_cached(
        "UPDATE submitter_lease SET expires_at = ?4, updated_at = ?5
         WHERE submitter = ?1 AND owner_node = ?2 AND fencing_token = ?3",
    )?;
    let mut left = Vec::new();
    for lease in leases.iter().filter(|lease| lease.owner() == owner) {
        let released = statement.execute((
            lease.submitter().as_str(),
            lease.owner().as_str(),
            signed(lease.token().get()),
            LeaseStatus::RELEASED.as_micros(),
            writing.now.as_micros(),
        ))?;
        if released == 1 && has_work(writing, lease.submitter())? {
            left.push(lease.submitter().clone());
        }
    }
    Ok(left)
}

/// The check before everything that needs a lease: it is in the hands of the process that it was granted to, nobody has
/// taken the lane since, and it has not run out.
pub(crate) fn holds(reading: &Reading<'_>, owner: &OwnerId, lease: &Lease) -> Result<bool, Failure> {
    let row = lease_row(reading, lease.submitter())?;
    Ok(lease.owner() == owner
        && row.is_some_and(|row| row.owner == owner.as_str() && row.token == lease.token() && row.is_valid(reading)))
}

/// A commit that is done extends the lease that it was made under.
pub(crate) fn extend(writing: &Writing<'_>, lease: &Lease) -> Result<(), Failure> {
    writing
        .sql
        .prepare_cached("UPDATE submitter_lease SET expires_at = ?2, updated_at = ?3 WHERE submitter = ?1")?
        .execute((lease.submitter().as_str(), writing.lease_end().as_micros(), writing.now.as_micros()))?;
    Ok(())
}

/// For people: the newest lease, also when it is over.
pub(crate) fn status(reading: &Reading<'_>, lane: &SubmitterId) -> Result<Option<LeaseStatus>, Failure> {
    let status = |row: LeaseRow| LeaseStatus {
        valid: row.is_valid(reading),
        owner: OwnerId::restore(&row.owner),
        token: row.token,
        expires_at: row.expires_at,
    };
    Ok(lease_row(reading, lane)?.map(status))
}

fn lease_row(reading: &Reading<'_>, lane: &SubmitterId) -> Result<Option<LeaseRow>, Failure> {
    let statement = reading
        .sql
        .prepare_cached("SELECT owner_node, fencing_token, expires_at FROM submitter_lease WHERE submitter = ?1")?;
    rows::first(statement, [lane.as_str()], |row| {
        Ok(LeaseRow { owner: row.get(0)?, token: token(row.get(1)?)?, expires_at: rows::time(row, 2)? })
    })
}
