//! Leases: which owner may write a lane, by the clock of the database.
//!
//! One process has the file, and usually one owner. The rules are those of every store all the same: a lease lasts
//! until it expires or is released, and a handle that outlived its lease is fenced.

use gapless_domain::{FencingToken, Lease, OwnerId, SubmitterId, Timestamp};
use gapless_store::{Acquired, LeaseStatus, Renewal};
use gapless_store_sql::{signed, submitter, token};

use crate::error::Failure;
use crate::ledger::{Reading, Writing};
use crate::read::has_work;
use crate::rows;
use crate::statement::statement;

statement! {
    struct LeaseWrite<'a> {
        submitter: &'a str,
        owner_node: &'a str,
        fencing_token: i64,
        expires_at: i64,
        updated_at: i64,
    } = "INSERT INTO submitter_lease ({columns}) VALUES ({values})
         ON CONFLICT (submitter) DO UPDATE SET owner_node = excluded.owner_node,
             fencing_token = excluded.fencing_token, expires_at = excluded.expires_at,
             updated_at = excluded.updated_at";
}

statement! {
    struct LeaseRenewal<'a> { owner_node: &'a str, now: i64, farthest_end: i64, expires_at: i64 } =
        "UPDATE submitter_lease SET expires_at = {expires_at}, updated_at = {now}
         WHERE owner_node = {owner_node} AND expires_at > {now} AND expires_at <= {farthest_end}
         RETURNING submitter, fencing_token";
}

statement! {
    struct LeaseRelease<'a> { submitter: &'a str, owner_node: &'a str, fencing_token: i64, expires_at: i64, now: i64 } =
        "UPDATE submitter_lease SET expires_at = {expires_at}, updated_at = {now}
         WHERE submitter = {submitter} AND owner_node = {owner_node} AND fencing_token = {fencing_token}";
}

struct StoredLease {
    owner: String,
    token: FencingToken,
    expires_at: Timestamp,
}

impl StoredLease {
    fn is_valid(&self, reading: &Reading<'_>) -> bool {
        self.expires_at > reading.now && self.expires_at <= reading.farthest_end()
    }

    /// True if another owner may take the lane over.
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
    let write = LeaseWrite {
        submitter: lane.as_str(),
        owner_node: owner.as_str(),
        fencing_token: signed(token.get()),
        expires_at: writing.lease_end().as_micros(),
        updated_at: writing.now.as_micros(),
    };
    write.execute(writing.sql)?;
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
    let renewal = LeaseRenewal {
        owner_node: owner.as_str(),
        now,
        farthest_end: writing.farthest_end().as_micros(),
        expires_at: writing.lease_end().as_micros(),
    };
    let mut extended = rows::all(LeaseRenewal::prepare(writing.sql)?, renewal.params(), |row| {
        Ok(Lease::granted(submitter(rows::text(row, 0)?)?, owner.clone(), token(row.get(1)?)?))
    })?;
    extended.sort_by(|a, b| a.submitter().cmp(b.submitter()));
    Ok(Renewal { extended, busy: Vec::new() })
}

/// The lanes that were released with work left: another node should acquire them. An idle lane is not among them, or
/// idle lanes would be passed from node to node for ever.
pub(crate) fn release(writing: &Writing<'_>, owner: &OwnerId, leases: &[Lease]) -> Result<Vec<SubmitterId>, Failure> {
    let mut left = Vec::new();
    for lease in leases.iter().filter(|lease| lease.owner() == owner) {
        let release = LeaseRelease {
            submitter: lease.submitter().as_str(),
            owner_node: lease.owner().as_str(),
            fencing_token: signed(lease.token().get()),
            expires_at: LeaseStatus::RELEASED.as_micros(),
            now: writing.now.as_micros(),
        };
        if release.execute(writing.sql)? == 1 && has_work(writing, lease.submitter())? {
            left.push(lease.submitter().clone());
        }
    }
    Ok(left)
}

/// The fence: true if the lease is used by the owner that it was granted to, no other owner has taken the lane over
/// since, and the lease has not expired.
pub(crate) fn holds(reading: &Reading<'_>, owner: &OwnerId, lease: &Lease) -> Result<bool, Failure> {
    let row = lease_row(reading, lease.submitter())?;
    Ok(lease.owner() == owner
        && row.is_some_and(|row| row.owner == owner.as_str() && row.token == lease.token() && row.is_valid(reading)))
}

/// A commit extends the lease that it was made under.
pub(crate) fn extend(writing: &Writing<'_>, lease: &Lease) -> Result<(), Failure> {
    writing
        .sql
        .prepare_cached("UPDATE submitter_lease SET expires_at = ?2, updated_at = ?3 WHERE submitter = ?1")?
        .execute((lease.submitter().as_str(), writing.lease_end().as_micros(), writing.now.as_micros()))?;
    Ok(())
}

/// The newest lease of a lane, also when it has expired. For people.
pub(crate) fn status(reading: &Reading<'_>, lane: &SubmitterId) -> Result<Option<LeaseStatus>, Failure> {
    let status = |row: StoredLease| LeaseStatus {
        valid: row.is_valid(reading),
        owner: OwnerId::restore(&row.owner),
        token: row.token,
        expires_at: row.expires_at,
    };
    Ok(lease_row(reading, lane)?.map(status))
}

fn lease_row(reading: &Reading<'_>, lane: &SubmitterId) -> Result<Option<StoredLease>, Failure> {
    let statement = reading
        .sql
        .prepare_cached("SELECT owner_node, fencing_token, expires_at FROM submitter_lease WHERE submitter = ?1")?;
    rows::first(statement, [lane.as_str()], |row| {
        Ok(StoredLease { owner: row.get(0)?, token: token(row.get(1)?)?, expires_at: rows::time(row, 2)? })
    })
}
