//! The facts about a lane commit, read inside the transaction that writes it. One query for each kind of row.

use std::fmt::Display;

use gapless_domain::ledger::{AttemptFact, CommitFacts, CursorFact, FactKeys, IntentFact, LeaseFact};
use gapless_domain::{FencingToken, LaneCommit, OwnerId, ReservationStatus};
use gapless_store_sql::{nonce, signed, token, unsigned};

use crate::error::Failure;
use crate::lease;
use crate::ledger::{Reading, Writing};
use crate::rows;

/// The cursor's row, as far as rules depend on it.
pub(crate) struct CursorFacts {
    pub(crate) fact: CursorFact,
    /// The store epoch that the lane has acknowledged.
    pub(crate) epoch: i64,
    pub(crate) written_by: FencingToken,
}

pub(crate) fn cursor_row(reading: &Reading<'_>, lane: &str) -> Result<Option<CursorFacts>, Failure> {
    let statement = reading.sql.prepare_cached(
        "SELECT version, next_nonce, open_nonce, protect_code IS 'store_regressed', epoch, fencing_token
         FROM submitter_nonce_cursor WHERE submitter = ?1",
    )?;
    rows::first(statement, [lane], |row| {
        let fact = CursorFact {
            version: unsigned("cursor version", row.get(0)?)?,
            next_nonce: nonce(row.get(1)?)?,
            open_nonce: nonce(row.get(2)?)?,
            unreconciled: row.get(3)?,
        };
        Ok(CursorFacts { fact, epoch: row.get(4)?, written_by: token(row.get(5)?)? })
    })
}

/// Reads the facts that the check of `commit` needs. A lost lease is reason enough to refuse, so nothing else is read.
pub(crate) fn gather(writing: &Writing<'_>, owner: &OwnerId, commit: &LaneCommit) -> Result<CommitFacts, Failure> {
    if !lease::holds(writing, owner, commit.lease())? {
        return Ok(CommitFacts::new(writing.now, LeaseFact::Lost));
    }
    let lane = commit.lease().submitter().as_str();
    let mut facts = CommitFacts::new(writing.now, LeaseFact::Held);
    let cursor = cursor_row(writing, lane)?;
    facts.regressed = writing.is_regressed(lane, cursor.as_ref().map(|row| row.epoch))?;
    facts.written_by = cursor.as_ref().map(|row| row.written_by);
    facts.cursor = cursor.map(|row| row.fact);
    let keys = FactKeys::of(commit);
    read_intents(writing, lane, &keys, &mut facts)?;
    read_slots(writing, lane, &keys, &mut facts)?;
    read_reservations(writing, lane, &keys, &mut facts)?;
    read_holders(writing, lane, &keys, &mut facts)?;
    Ok(facts)
}

fn read_intents(reading: &Reading<'_>, lane: &str, keys: &FactKeys, facts: &mut CommitFacts) -> Result<(), Failure> {
    if keys.intents.is_empty() {
        return Ok(());
    }
    let statement = reading.sql.prepare_cached(
        "SELECT t.tx_id, t.version, t.fencing_token FROM json_each(?2) AS wanted
         CROSS JOIN managed_tx AS t ON t.tx_id = wanted.value WHERE t.submitter = ?1",
    )?;
    let wanted = json_array(keys.intents.iter().map(|id| format!("\"{id}\"")));
    let found = rows::all(statement, (lane, wanted), |row| {
        let written_by = Some(token(row.get(2)?)?);
        Ok((rows::id(row)?, IntentFact { version: row.get(1)?, written_by }))
    })?;
    facts.intents.extend(found);
    Ok(())
}

/// Reads the slots that the commit names, and their attempts.
fn read_slots(reading: &Reading<'_>, lane: &str, keys: &FactKeys, facts: &mut CommitFacts) -> Result<(), Failure> {
    if !keys.slots.is_empty() {
        let statement = reading.sql.prepare_cached(
            "SELECT s.nonce FROM json_each(?2) AS wanted
             CROSS JOIN slot AS s ON s.submitter = ?1 AND s.nonce = wanted.value",
        )?;
        facts.slots.extend(rows::all(statement, (lane, json_array(&keys.slots)), |row| Ok(nonce(row.get(0)?)?))?);
    }
    if !keys.attempts.is_empty() {
        let statement = reading.sql.prepare_cached(
            "SELECT a.nonce, a.ordinal, a.hash FROM json_each(?2) AS wanted
             CROSS JOIN tx_attempt AS a ON a.submitter = ?1 AND a.nonce = wanted.value",
        )?;
        let found = rows::all(statement, (lane, json_array(&keys.attempts)), |row| {
            Ok((nonce(row.get(0)?)?, AttemptFact { ordinal: row.get(1)?, hash: rows::hash(row, 2)? }))
        })?;
        for (nonce, attempt) in found {
            facts.attempts.entry(nonce).or_default().push(attempt);
        }
    }
    Ok(())
}

fn read_reservations(
    reading: &Reading<'_>,
    lane: &str,
    keys: &FactKeys,
    facts: &mut CommitFacts,
) -> Result<(), Failure> {
    if !keys.reservations.is_empty() {
        let statement = reading.sql.prepare_cached(
            "SELECT r.nonce, r.status, r.tx_id, r.lock_owner, r.locked_until FROM json_each(?2) AS wanted
             CROSS JOIN submitter_nonce_allocation AS r ON r.submitter = ?1 AND r.nonce = wanted.value",
        )?;
        let found = rows::all(statement, (lane, json_array(&keys.reservations)), rows::reservation)?;
        facts.reservations.extend(found.into_iter().map(|found| (found.nonce, found.status)));
    }
    if keys.reserves {
        let statement = reading.sql.prepare_cached(
            "SELECT nonce FROM submitter_nonce_allocation INDEXED BY submitter_nonce_allocation_open
             WHERE submitter = ?1 AND nonce >= ?2 AND status <> 'USED' AND status = 'RECYCLABLE'",
        )?;
        let open = signed(facts.open_nonce().get());
        let found = rows::all(statement, (lane, open), |row| Ok(nonce(row.get(0)?)?))?;
        facts.reservations.extend(found.into_iter().map(|nonce| (nonce, ReservationStatus::Recyclable)));
    }
    Ok(())
}

/// Reads the intents that hold a nonce which the commit closes.
fn read_holders(reading: &Reading<'_>, lane: &str, keys: &FactKeys, facts: &mut CommitFacts) -> Result<(), Failure> {
    let open = facts.open_nonce();
    let Some(closed_below) = keys.open_nonce.filter(|nonce| *nonce > open) else { return Ok(()) };
    let statement = reading.sql.prepare_cached(
        "SELECT tx_id FROM managed_tx INDEXED BY managed_tx_bound
         WHERE submitter = ?1 AND nonce >= ?2 AND nonce < ?3 AND state IN ('ALLOCATED', 'TRACKING', 'STUCK')",
    )?;
    facts.holders.extend(rows::all(statement, (lane, signed(open.get()), signed(closed_below.get())), rows::id)?);
    Ok(())
}

/// A JSON array of values that are JSON already, for `json_each`.
fn json_array<T: Display>(values: impl IntoIterator<Item = T>) -> String {
    let mut array = String::from("[");
    for value in values {
        if array.len() > 1 {
            array.push(',');
        }
        array.push_str(&value.to_string());
    }
    array.push(']');
    array
}
