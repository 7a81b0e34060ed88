//! Writes that need no lease: accepting intents, canceling queued ones, putting commands.
//!
//! No lease or cursor row is written; cursors are read without locking. Rows are locked in one order: request keys by
//! (submitter, request id), intents by id.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::SystemTime;

use gapless_domain::{CancelReason, CommandId, NewCommand, Protection, SubmitterId, Transition, TxId, TxState};
use gapless_store::{Accepted, CancelVerdict, NewIntent, NewSubmitter, StoreError};
use gapless_store_sql::{command_to_json, payload_to_json, protection, state_to_row, submitter, unsigned};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::bulk::bulk_statement;
use crate::error::{Blame, blame, text, timed_out, unavailable};
use crate::rows::{get, hash, system_time};
use crate::session::{Session, within};
use crate::store::PgStore;

const REGISTER: &str = "
    INSERT INTO submitter (submitter, alias, epoch)
    SELECT i.*, (SELECT epoch - CASE WHEN reconciled_at IS NULL THEN 1 ELSE 0 END FROM store_epoch
                 ORDER BY epoch DESC LIMIT 1)
    FROM unnest($1::text[], $2::text[]) AS i ORDER BY 1
    ON CONFLICT (submitter) DO UPDATE SET alias = excluded.alias WHERE excluded.alias IS NOT NULL";

bulk_statement! {
    /// One statement, so one round trip and no open transaction. Keys are inserted in sorted order, which is the lock
    /// order; intents in the order given, which is the order of the queue. Rows with a known key, and rows of a
    /// submitter that takes no new intents, do not come back. IS TRUE keeps the planner from joining `admitted` and
    /// `fresh`: it believes both to be short, and would compare each row of one with each of the other.
    fn insert_intents(
        IntentInsert<'a> {
            tx_id: Uuid as "uuid",
            submitter: &'a str as "text",
            request_id: &'a str as "text",
            payload_hash: Vec<u8> as "bytea",
            payload: String as "text",
            speed: &'static str as "text",
            valid_until: Option<SystemTime> as "timestamptz",
            metadata: Option<&'a str> as "text",
        },
    ) = "
    WITH input AS (
        SELECT * FROM {ordered_rows}
    ), admitted AS (
        SELECT i.* FROM input i
        WHERE EXISTS (
            SELECT FROM submitter s LEFT JOIN submitter_nonce_cursor c ON c.submitter = s.submitter
            WHERE s.submitter = i.submitter AND c.state IS DISTINCT FROM 'PROTECT'
              AND coalesce(c.epoch, s.epoch) >= (SELECT max(epoch) FROM store_epoch))
          AND NOT EXISTS (SELECT FROM archived_tx x WHERE x.tx_id = i.tx_id)
    ), fresh AS (
        INSERT INTO request_key (submitter, request_id, payload_hash, tx_id)
        SELECT submitter, request_id, payload_hash, tx_id FROM admitted
        ORDER BY submitter COLLATE \"C\", request_id COLLATE \"C\", place
        ON CONFLICT (submitter, request_id) DO NOTHING
        RETURNING submitter, request_id, tx_id
    ), queued AS (
        INSERT INTO managed_tx (tx_id, submitter, request_id, payload, speed, valid_until, metadata, state, detail,
            version, created_at, updated_at)
        SELECT a.tx_id, a.submitter, a.request_id, a.payload::jsonb, a.speed, a.valid_until, a.metadata::json, 'QUEUED',
            '{}', 1, statement_timestamp(), statement_timestamp()
        FROM admitted a
        WHERE ((a.submitter, a.request_id, a.tx_id) IN (SELECT submitter, request_id, tx_id FROM fresh)) IS TRUE
        ORDER BY a.place
        RETURNING tx_id, submitter
    ), events AS (
        INSERT INTO tx_event (xid, submitter, tx_id, seq, kind, state, detail)
        SELECT (SELECT event_xid()), submitter, tx_id, 1, 'accepted', 'QUEUED', '{}' FROM queued
    )
    SELECT tx_id FROM queued";
}

bulk_statement! {
    /// Why intents were not inserted. A statement of its own: the first one does not see a key that another node was
    /// inserting at the same time.
    fn explain_intents(
        IntentKey<'a> { submitter: &'a str as "text", request_id: &'a str as "text", tx_id: Uuid as "uuid" },
    ) = "
    SELECT k.tx_id, k.payload_hash, s.submitter IS NOT NULL AS known, c.state = 'PROTECT' AS protected, c.protect_code,
           c.protect_detail, coalesce(c.epoch, s.epoch) < (SELECT max(epoch) FROM store_epoch) AS regressed,
           EXISTS (SELECT FROM archived_tx x WHERE x.tx_id = i.tx_id) AS id_in_use
    FROM {ordered_rows}
    LEFT JOIN request_key k ON (k.submitter, k.request_id) = (i.submitter, i.request_id)
    LEFT JOIN submitter s ON s.submitter = i.submitter
    LEFT JOIN submitter_nonce_cursor c ON c.submitter = i.submitter
    ORDER BY i.place";
}

const CANCEL: &str = "
    WITH waiting AS (
        SELECT t.tx_id FROM managed_tx t
        WHERE t.tx_id = ANY($1) AND t.state = 'QUEUED'
          AND NOT EXISTS (
              SELECT FROM submitter s LEFT JOIN submitter_nonce_cursor c ON c.submitter = s.submitter
              WHERE s.submitter = t.submitter
                AND (coalesce(c.epoch, s.epoch) < (SELECT max(epoch) FROM store_epoch)
                     OR c.protect_code = 'store_regressed'))
        ORDER BY t.tx_id FOR NO KEY UPDATE OF t
    ), canceled AS (
        UPDATE managed_tx t
        SET state = 'CANCELED', detail = $2::text::jsonb, version = t.version + 1,
            updated_at = clock_timestamp(), ended_at = clock_timestamp()
        FROM waiting w WHERE t.tx_id = w.tx_id AND t.state = 'QUEUED'
        RETURNING t.tx_id, t.submitter, t.version
    ), events AS (
        INSERT INTO tx_event (xid, submitter, tx_id, seq, kind, state, detail)
        SELECT (SELECT event_xid()), submitter, tx_id, version, 'cancel_in_queue', 'CANCELED', $2::text::jsonb
        FROM canceled
    )
    SELECT tx_id, submitter FROM canceled";

/// An intent that is still queued after [`CANCEL`] is in a regressed lane.
const EXISTING: &str = "
    SELECT tx_id, state = 'QUEUED' AS queued FROM managed_tx WHERE tx_id = ANY($1)
    UNION ALL SELECT tx_id, FALSE FROM archived_tx WHERE tx_id = ANY($1)";

bulk_statement! {
    fn insert_commands(
        CommandInsert<'a> {
            submitter: &'a str as "text",
            kind: &'static str as "text",
            body: String as "text",
            issued_by: &'a str as "text",
        },
    ) = "
    INSERT INTO lane_command ({columns})
    SELECT submitter, kind, body::jsonb, issued_by FROM {ordered_rows} ORDER BY place RETURNING id";
}

/// How often an intent that was neither inserted nor explained is tried again: its lane left PROTECT in between.
const MAX_ROUNDS: usize = 4;

/// How often a registration is tried. It fails when another node inserts the same row, or one with the same alias,
/// meanwhile.
const REGISTER_TRIES: u32 = 5;

fn is_lock_conflict(error: &tokio_postgres::Error) -> bool {
    matches!(error.code(), Some(&SqlState::T_R_DEADLOCK_DETECTED | &SqlState::LOCK_NOT_AVAILABLE))
}

pub(crate) async fn register(store: &PgStore, submitters: &[NewSubmitter]) -> Result<(), StoreError> {
    let ids: Vec<&str> = submitters.iter().map(|submitter| submitter.id.as_str()).collect();
    let aliases: Vec<Option<&str>> = submitters.iter().map(|submitter| submitter.alias.as_deref()).collect();
    let mut tries = REGISTER_TRIES;
    loop {
        tries -= 1;
        let registered = store
            .with_session("registering submitters", async |session| {
                let statement = session.prepared(REGISTER).await?;
                Ok(session.client().execute(&statement, &[&ids, &aliases]).await)
            })
            .await?;
        match registered {
            Ok(_) => return Ok(()),
            // Another node may register the same submitters at this moment. Then its rows are there by now, or each
            // waited for the other and the server has ended one of the two.
            Err(error) if tries > 0 && (blame(&error) == Blame::Row || is_lock_conflict(&error)) => {}
            Err(error) if blame(&error) == Blame::Row => return Err(StoreError::Setup(text(&error))),
            Err(error) => return Err(unavailable(error)),
        }
    }
}

pub(crate) async fn accept(store: &PgStore, intents: &[NewIntent]) -> Result<Vec<Accepted>, StoreError> {
    if intents.is_empty() {
        return Ok(Vec::new());
    }
    let verdicts = accept_together_or_alone(store, intents).await;
    // Lanes of known intents are woken too, and all lanes after an error: the caller may repeat a call whose answer and
    // wake-up were lost.
    let woken: BTreeSet<SubmitterId> = match &verdicts {
        Ok(verdicts) => intents
            .iter()
            .zip(verdicts)
            .filter(|(_, verdict)| matches!(verdict, Accepted::New | Accepted::Existing(_)))
            .map(|(new, _)| new.intent.submitter().clone())
            .collect(),
        Err(_) => intents.iter().map(|new| new.intent.submitter().clone()).collect(),
    };
    store.notifier.tell(woken.clone());
    store.notifier.wake(woken);
    verdicts
}

async fn accept_together_or_alone(store: &PgStore, intents: &[NewIntent]) -> Result<Vec<Accepted>, StoreError> {
    if let Ok(verdicts) = within(store.options.call_timeout, "accepting", accept_batch(store, intents)).await? {
        return Ok(verdicts);
    }
    // One bad row failed the whole statement. Inserted alone, only that row fails.
    let mut verdicts = Vec::with_capacity(intents.len());
    for intent in intents {
        let alone = accept_batch(store, std::slice::from_ref(intent));
        verdicts.push(match within(store.options.call_timeout, "accepting", alone).await? {
            Ok(mut verdict) => verdict.pop().ok_or_else(|| timed_out("no verdict"))?,
            Err(RowFault(problem)) => Accepted::Refused(problem),
        });
    }
    Ok(verdicts)
}

/// The statement failed because of a value in one of its rows.
struct RowFault(String);

async fn accept_batch(store: &PgStore, intents: &[NewIntent]) -> Result<Result<Vec<Accepted>, RowFault>, StoreError> {
    let session = store.pool.get().await?;
    let mut verdicts: Vec<Option<Accepted>> = vec![None; intents.len()];
    for _ in 0..MAX_ROUNDS {
        let open: Vec<usize> = (0..intents.len()).filter(|at| verdicts[*at].is_none()).collect();
        if open.is_empty() {
            break;
        }
        let batch: Vec<&NewIntent> = open.iter().map(|at| &intents[*at]).collect();
        let mut inserted = match insert(&session, &batch).await {
            Ok(inserted) => inserted,
            Err(error) if blame(&error) == Blame::Row => {
                let fault = text(&error);
                session.put_back();
                return Ok(Err(RowFault(fault)));
            }
            Err(error) => return Err(unavailable(error)),
        };
        let mut rest = Vec::new();
        for at in open {
            // An id that is twice in a batch is one row, which belongs to the first of the two.
            if inserted.remove(&intents[at].id.uuid()) {
                verdicts[at] = Some(Accepted::New);
            } else {
                rest.push(at);
            }
        }
        if !rest.is_empty() {
            let batch: Vec<&NewIntent> = rest.iter().map(|at| &intents[*at]).collect();
            let rows = explain(&session, &batch).await.map_err(unavailable)?;
            for (at, row) in rest.into_iter().zip(&rows) {
                verdicts[at] = verdict(&intents[at], row)?;
            }
        }
    }
    session.put_back();
    verdicts
        .into_iter()
        .collect::<Option<Vec<_>>>()
        .map(Ok)
        .ok_or_else(|| timed_out("the lane kept changing while intents were accepted"))
}

async fn insert(session: &Session, batch: &[&NewIntent]) -> Result<HashSet<Uuid>, tokio_postgres::Error> {
    let rows = batch.iter().map(|new| IntentInsert {
        tx_id: new.id.uuid(),
        submitter: new.intent.submitter().as_str(),
        request_id: new.intent.request_id().as_str(),
        payload_hash: new.intent.payload().fingerprint().0.to_vec(),
        payload: payload_to_json(new.intent.payload()),
        speed: new.intent.speed().as_str(),
        valid_until: new.intent.valid_until().map(system_time),
        metadata: new.intent.metadata().map(|metadata| metadata.as_json()),
    });
    let inserted = session.bulk(insert_intents(rows.collect())).await?;
    Ok(inserted.iter().map(|row| row.get(0)).collect())
}

async fn explain(session: &Session, batch: &[&NewIntent]) -> Result<Vec<Row>, tokio_postgres::Error> {
    let keys = batch.iter().map(|new| IntentKey {
        submitter: new.intent.submitter().as_str(),
        request_id: new.intent.request_id().as_str(),
        tx_id: new.id.uuid(),
    });
    session.bulk(explain_intents(keys.collect())).await
}

/// A known request is answered in every state of its lane. None means that the obstacle is gone: try again.
fn verdict(new: &NewIntent, row: &Row) -> Result<Option<Accepted>, StoreError> {
    if let Some(id) = get::<Option<Uuid>>(row, "tx_id")? {
        let same = hash(get(row, "payload_hash")?)? == new.intent.payload().fingerprint().0;
        let id = TxId::from_uuid(id);
        return Ok(Some(if same { Accepted::Existing(id) } else { Accepted::Conflict(id) }));
    }
    if !get::<bool>(row, "known")? {
        return Ok(Some(Accepted::UnknownSubmitter));
    }
    if get::<Option<bool>>(row, "protected")? == Some(true) {
        let protection = protection(get(row, "protect_code")?, get(row, "protect_detail")?)?;
        return Ok(Some(Accepted::Protected(protection)));
    }
    if get::<Option<bool>>(row, "regressed")? == Some(true) {
        return Ok(Some(Accepted::Protected(Protection::store_regressed())));
    }
    if get::<bool>(row, "id_in_use")? {
        return Ok(Some(Accepted::Refused(format!("the id {} is in use", new.id))));
    }
    Ok(None)
}

pub(crate) async fn cancel_queued(store: &PgStore, ids: &[TxId]) -> Result<Vec<CancelVerdict>, StoreError> {
    let uuids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let canceled = TxState::Queued
        .apply(Transition::CancelInQueue(CancelReason::User))
        .map_err(|error| StoreError::Setup(error.to_string()))?;
    let detail = state_to_row(&canceled).detail;
    let (done, known) = store
        .with_session("canceling", async |session| {
            let cancel = session.prepared(CANCEL).await?;
            let existing = session.prepared(EXISTING).await?;
            let done = session.client().query(&cancel, &[&uuids, &detail]).await?;
            let known = session.client().query(&existing, &[&uuids]).await?;
            Ok((done, known))
        })
        .await?;
    let lanes: BTreeSet<SubmitterId> =
        done.iter().map(|row| Ok(submitter(get(row, "submitter")?)?)).collect::<Result<_, StoreError>>()?;
    store.notifier.queue_changed(lanes.clone());
    store.notifier.tell(lanes);
    let mut done: BTreeSet<Uuid> = done.iter().map(|row| row.get(0)).collect();
    let known: HashMap<Uuid, bool> = known.iter().map(|row| (row.get(0), row.get(1))).collect();
    Ok(uuids
        .iter()
        .map(|id| match (done.remove(id), known.get(id)) {
            (true, _) => CancelVerdict::Canceled,
            (false, Some(false)) => CancelVerdict::NotQueued,
            (false, Some(true)) => CancelVerdict::Regressed,
            (false, None) => CancelVerdict::Unknown,
        })
        .collect())
}

pub(crate) async fn put_commands(store: &PgStore, commands: &[NewCommand]) -> Result<Vec<CommandId>, StoreError> {
    let rows = store
        .with_session("putting commands", async |session| {
            let rows = commands.iter().map(|command| CommandInsert {
                submitter: command.submitter.as_str(),
                kind: command.kind.as_str(),
                body: command_to_json(&command.kind),
                issued_by: command.issued_by.as_str(),
            });
            session.bulk(insert_commands(rows.collect())).await
        })
        .await?;
    store.notifier.wake(commands.iter().map(|command| command.submitter.clone()).collect());
    rows.iter().map(|row| Ok(CommandId(unsigned("command id", get(row, "id")?)?))).collect()
}
