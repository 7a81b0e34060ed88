//! Events and their consumers.
//!
//! One transaction is written at a time, so the order of the rows is the order of the commits, and no event commits
//! late.

use gapless_domain::{Event, EventPosition, OwnerId, TxId};
use gapless_store_sql::signed;

use crate::error::Failure;
use crate::ledger::{Reading, Writing};
use crate::retention;
use crate::rows::{self, EVENT_COLUMNS};
use crate::statement::statement;

statement! {
    struct ConsumerClaim<'a> { name: &'a str, owner_node: &'a str, locked_until: i64, now: i64, farthest_end: i64 } =
        "INSERT INTO event_consumer (name, commit_no, idx, owner_node, locked_until)
         VALUES ({name}, 0, 0, {owner_node}, {locked_until})
         ON CONFLICT (name) DO UPDATE SET owner_node = excluded.owner_node, locked_until = excluded.locked_until
         WHERE owner_node = excluded.owner_node OR locked_until <= {now} OR locked_until > {farthest_end}
         RETURNING commit_no, idx";
}

statement! {
    /// A position below the known one changes nothing, and is no error.
    struct ConsumerAck<'a> { name: &'a str, owner_node: &'a str, commit: i64, index: i64, now: i64 } =
        "UPDATE event_consumer
         SET commit_no = CASE WHEN (commit_no, idx) < ({commit}, {index}) THEN {commit} ELSE commit_no END,
             idx = CASE WHEN (commit_no, idx) < ({commit}, {index}) THEN {index} ELSE idx END
         WHERE name = {name} AND owner_node = {owner_node} AND locked_until > {now}";
}

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

/// The first claim registers a consumer. From then on retention waits for it.
pub(crate) fn claim_events(
    writing: &Writing<'_>,
    owner: &OwnerId,
    consumer: &str,
    limit: u32,
) -> Result<Option<Vec<Event>>, Failure> {
    let claim = ConsumerClaim {
        name: consumer,
        owner_node: owner.as_str(),
        locked_until: writing.lease_end().as_micros(),
        now: writing.now.as_micros(),
        farthest_end: writing.farthest_end().as_micros(),
    };
    let claimed = rows::first(ConsumerClaim::prepare(writing.sql)?, claim.params(), rows::position)?;
    claimed.map(|after| read_events(writing, after, limit)).transpose()
}

pub(crate) fn ack_events(
    writing: &Writing<'_>,
    owner: &OwnerId,
    consumer: &str,
    upto: EventPosition,
) -> Result<bool, Failure> {
    let ack = ConsumerAck {
        name: consumer,
        owner_node: owner.as_str(),
        commit: signed(upto.commit),
        index: signed(upto.index),
        now: writing.now.as_micros(),
    };
    Ok(ack.execute(writing.sql)? == 1)
}
