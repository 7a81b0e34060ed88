//! Events in the order of commits.

use gapless_domain::{Event, EventPosition, TxId};
use gapless_store::StoreError;
use gapless_store_sql::{EventRow, signed, unsigned, word};
use tokio_postgres::Row;

use crate::rows::{get, micros, optional_id, time};
use crate::store::PgStore;

/// A transaction that is still open may have a lower number than one that is already visible. Readers stop below the
/// oldest open transaction, so no event can appear behind them. Events of earlier servers are below the offset of this
/// server, so readers see all of them. Transaction ids travel as text: the driver has no type for them.
const READ: &str = "
    SELECT xid::text AS xid, id, submitter, tx_id, seq, kind, state, nonce, detail::text AS detail, text, at,
        notice::text AS notice
    FROM tx_event
    WHERE (xid, id) > ($1::text::xid8, $2)
      AND xid < (
          SELECT (xid_offset + pg_snapshot_xmin(pg_current_snapshot())::text::bigint)::text::xid8 FROM event_origin)
    ORDER BY tx_event.xid, tx_event.id LIMIT $3";

/// Visible events are enough here: a change of an intent locks its row, so the events of one intent commit in their
/// order.
const READ_ONE: &str = "
    SELECT xid::text AS xid, id, submitter, tx_id, seq, kind, state, nonce, detail::text AS detail, text, at,
        notice::text AS notice
    FROM (SELECT * FROM tx_event WHERE tx_id = $1 UNION ALL SELECT * FROM archived_event WHERE tx_id = $1) AS event
    ORDER BY seq LIMIT $2";

const FIRST_CLAIM: &str = "
    INSERT INTO event_consumer (name, xid, id, owner_node, locked_until) VALUES ($1, '0', 0, $2, '-infinity')
    ON CONFLICT (name) DO NOTHING";

const CLAIM: &str = "
    UPDATE event_consumer SET owner_node = $2, locked_until = clock_timestamp() + $3::bigint * interval '1 microsecond'
    WHERE name = $1 AND (owner_node = $2 OR locked_until <= clock_timestamp())
    RETURNING xid::text AS xid, id";

const ACK: &str = "
    UPDATE event_consumer SET xid = $3::text::xid8, id = $4
    WHERE name = $1 AND owner_node = $2 AND locked_until > clock_timestamp() AND (xid, id) <= ($3::text::xid8, $4)";

pub(crate) async fn read(store: &PgStore, after: EventPosition, limit: u32) -> Result<Vec<Event>, StoreError> {
    let rows = store
        .with_session("reading events", async |session| {
            let statement = session.prepared(READ).await?;
            let (commit, index) = (after.commit.to_string(), signed(after.index));
            session.client().query(&statement, &[&commit, &index, &i64::from(limit)]).await
        })
        .await?;
    rows.iter().map(event).collect()
}

pub(crate) async fn read_one(store: &PgStore, id: TxId, limit: u32) -> Result<Vec<Event>, StoreError> {
    let rows = store
        .with_session("reading the events of an intent", async |session| {
            let statement = session.prepared(READ_ONE).await?;
            session.client().query(&statement, &[&id.uuid(), &i64::from(limit)]).await
        })
        .await?;
    rows.iter().map(event).collect()
}

pub(crate) async fn claim(store: &PgStore, consumer: &str, limit: u32) -> Result<Option<Vec<Event>>, StoreError> {
    let owner = store.owner.as_str();
    let hold = micros(store.options.lease.duration);
    let claimed = store
        .with_session("claiming events", async |session| {
            session.client().execute(FIRST_CLAIM, &[&consumer, &owner]).await?;
            let statement = session.prepared(CLAIM).await?;
            session.client().query_opt(&statement, &[&consumer, &owner, &hold]).await
        })
        .await?;
    match claimed {
        Some(row) => read(store, position(&row)?, limit).await.map(Some),
        None => Ok(None),
    }
}

pub(crate) async fn ack(store: &PgStore, consumer: &str, upto: EventPosition) -> Result<bool, StoreError> {
    let owner = store.owner.as_str();
    let (commit, index) = (upto.commit.to_string(), signed(upto.index));
    let moved = store
        .with_session("acknowledging events", async |session| {
            let statement = session.prepared(ACK).await?;
            session.client().execute(&statement, &[&consumer, &owner, &commit, &index]).await
        })
        .await?;
    Ok(moved == 1)
}

fn position(row: &Row) -> Result<EventPosition, StoreError> {
    let commit: &str = get(row, "xid")?;
    let commit = word("xid", commit, |text| text.parse().ok())?;
    Ok(EventPosition { commit, index: unsigned("id", get(row, "id")?)? })
}

fn event(row: &Row) -> Result<Event, StoreError> {
    let columns = EventRow {
        position: position(row)?,
        submitter: get(row, "submitter")?,
        tx_id: optional_id(row, "tx_id")?,
        seq: get(row, "seq")?,
        kind: get(row, "kind")?,
        state: get(row, "state")?,
        nonce: get(row, "nonce")?,
        detail: get(row, "detail")?,
        text: get(row, "text")?,
        at: time(row, "at")?,
        notice: get(row, "notice")?,
    };
    Ok(Event::try_from(columns)?)
}
