//! Events and their consumers.
//!
//! One transaction is written at a time, so the order of the rows is the order of the commits, and nothing commits late.

use gapless_domain::{Event, EventPosition, OwnerId, TxId};
use gapless_store::codec::{signed, unsigned};

use crate::error::Failure;
use crate::ledger::{Reading, Writing};
use crate::retention;
use crate::rows::{self, EVENT_COLUMNS};

pub(crate) fn read_events(reading: &Reading<'_>, after: EventPosition, limit: u32) -> Result<Vec<Event>, Failure> {
    let statement = reading.sql.prepare_cached(&format!(
        "SELECT {EVENT_COLUMNS} FROM tx_event WHERE (commit_no, idx) > (?1, ?2) ORDER BY commit_no, idx LIMIT ?3"
    ))?;
    rows::all(statement, (signed(after.commit), signed(after.index), limit), rows::event)
}

pub(crate) fn events_of(reading: &Reading<'_>, id: TxId, limit: u32) -> Result<Vec<Event>, Failure> {
    let statement = reading.sql.prepare_cached(&format!(
        "SELECT {EVENT_COLUMNS} FROM tx_event INDEXED BY tx_event_tx WHERE tx_id = ?1 ORDER BY seq LIMIT ?2"
    ))?;
    let found = rows::all(statement, (id.to_string(), limit), rows::event)?;
    if found.is_empty() { retention::events_of(reading, id, limit) } else { Ok(found) }
}

/// The first claim makes a consumer known; from then on retention waits for it.
pub(crate) fn claim_events(
    writing: &Writing<'_>,
    owner: &OwnerId,
    consumer: &str,
    limit: u32,
) -> Result<Option<Vec<Event>>, Failure> {
    let statement = writing.sql.prepare_cached(
        "INSERT INTO event_consumer (name, commit_no, idx, owner_node, locked_until) VALUES (?1, 0, 0, ?2, ?3)
         ON CONFLICT (name) DO UPDATE SET owner_node = excluded.owner_node, locked_until = excluded.locked_until
         WHERE owner_node = excluded.owner_node OR locked_until <= ?4 OR locked_until > ?5
         RETURNING commit_no, idx",
    )?;
    let params = (
        consumer,
        owner.as_str(),
        writing.lease_end().as_micros(),
        writing.now.as_micros(),
        writing.farthest_end().as_micros(),
    );
    let claimed = rows::first(statement, params, |row| {
        Ok(EventPosition { commit: unsigned("commit", row.get(0)?)?, index: unsigned("index", row.get(1)?)? })
    })?;
    claimed.map(|after| read_events(writing, after, limit)).transpose()
}

pub(crate) fn ack_events(
    writing: &Writing<'_>,
    owner: &OwnerId,
    consumer: &str,
    upto: EventPosition,
) -> Result<bool, Failure> {
    let (commit, index) = (signed(upto.commit), signed(upto.index));
    // An older position than the one that is known changes nothing, but is no error either.
    let held = writing
        .sql
        .prepare_cached(
            "UPDATE event_consumer
             SET commit_no = CASE WHEN (commit_no, idx) < (?3, ?4) THEN ?3 ELSE commit_no END,
                 idx = CASE WHEN (commit_no, idx) < (?3, ?4) THEN ?4 ELSE idx END
             WHERE name = ?1 AND owner_node = ?2 AND locked_until > ?5",
        )?
        .execute((consumer, owner.as_str(), commit, index, writing.now.as_micros()))?;
    Ok(held == 1)
}
