//! Finding work: the front of a queue, open commands, and lanes without an owner. The cost does not grow with the
//! backlog.

use std::collections::HashMap;
use std::sync::LazyLock;

use gapless_domain::{Command, IntentRecord, SubmitterId, TxId};
use gapless_store::{MAX_OPEN_COMMANDS, StoreError};
use gapless_store_sql::submitter;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::rows::{INTENT_COLUMNS, command, get, intent_record_of};
use crate::store::PgStore;

/// Walks the indexes of open work from one submitter to the next, not from one row to the next. Intents that hold a
/// nonce are not searched: the cursor of their lane has an open nonce.
const LANES: &str = "
    WITH RECURSIVE queued AS (
        (SELECT submitter FROM managed_tx
         WHERE nonce IS NULL AND ended_at IS NULL AND submitter > $1 ORDER BY submitter LIMIT 1)
        UNION ALL
        SELECT (SELECT t.submitter FROM managed_tx t
                WHERE t.nonce IS NULL AND t.ended_at IS NULL AND t.submitter > w.submitter ORDER BY t.submitter LIMIT 1)
        FROM queued w WHERE w.submitter IS NOT NULL
    ), commanded AS (
        (SELECT submitter FROM lane_command WHERE done_at IS NULL AND submitter > $1 ORDER BY submitter LIMIT 1)
        UNION ALL
        SELECT (SELECT t.submitter FROM lane_command t
                WHERE t.done_at IS NULL AND t.submitter > w.submitter ORDER BY t.submitter LIMIT 1)
        FROM commanded w WHERE w.submitter IS NOT NULL
    ), unclosed AS (
        (SELECT submitter FROM submitter_nonce_cursor WHERE has_open AND submitter > $1 ORDER BY submitter LIMIT 1)
        UNION ALL
        SELECT (SELECT t.submitter FROM submitter_nonce_cursor t
                WHERE t.has_open AND t.submitter > w.submitter ORDER BY t.submitter LIMIT 1)
        FROM unclosed w WHERE w.submitter IS NOT NULL
    )
    SELECT u.submitter
    FROM (SELECT submitter FROM queued UNION SELECT submitter FROM commanded UNION SELECT submitter FROM unclosed) AS u
    WHERE u.submitter IS NOT NULL
      AND NOT EXISTS (
          SELECT FROM submitter_lease l WHERE l.submitter = u.submitter AND l.expires_at > clock_timestamp())
    ORDER BY u.submitter LIMIT $2";

const COMMANDS: &str = "
    SELECT w.place, c.* FROM unnest($1::text[]) WITH ORDINALITY AS w (submitter, place)
    CROSS JOIN LATERAL (
        SELECT c.id, c.submitter, c.body::text AS body, c.issued_by, c.issued_at FROM lane_command c
        WHERE c.submitter = w.submitter AND c.done_at IS NULL ORDER BY c.id LIMIT $2
    ) AS c ORDER BY w.place, c.id";

pub(crate) async fn lanes_with_work(
    store: &PgStore,
    after: Option<&SubmitterId>,
    limit: u32,
) -> Result<Vec<SubmitterId>, StoreError> {
    let after = after.map_or("", SubmitterId::as_str);
    let rows = store
        .with_session("finding lanes with work", async |session| {
            let statement = session.prepared(LANES).await?;
            session.client().query(&statement, &[&after, &i64::from(limit)]).await
        })
        .await?;
    rows.iter().map(|row| Ok(submitter(get(row, "submitter")?)?)).collect()
}

pub(crate) async fn peek_queues(
    store: &PgStore,
    lanes: &[(SubmitterId, u32)],
    without: &[TxId],
) -> Result<Vec<Vec<IntentRecord>>, StoreError> {
    let ids: Vec<&str> = lanes.iter().map(|(lane, _)| lane.as_str()).collect();
    let wanted: Vec<i64> = lanes.iter().map(|(_, wanted)| i64::from(*wanted)).collect();
    let without: Vec<Uuid> = without.iter().map(|id| id.uuid()).collect();
    let rows = store
        .with_session("peeking", async |session| {
            let statement = session.prepared(QUEUES.as_str()).await?;
            session.client().query(&statement, &[&ids, &wanted, &without]).await
        })
        .await?;
    by_place(&rows, lanes.iter(), |row, (lane, _)| Ok(intent_record_of(row, lane.clone())?))
}

/// "No nonce and not ended" is the condition of the index `managed_tx_queue`, so no other row is read. The excluded ids
/// are a subquery, which is hashed once; an array would be searched for each row.
static QUEUES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT w.place, t.* FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS w (submitter, wanted, place)
         CROSS JOIN LATERAL (
             SELECT {INTENT_COLUMNS} FROM managed_tx q
             WHERE q.submitter = w.submitter AND q.nonce IS NULL AND q.ended_at IS NULL AND q.state = 'QUEUED'
               AND q.tx_id NOT IN (SELECT unnest($3::uuid[]))
             ORDER BY q.seq LIMIT w.wanted
         ) AS t ORDER BY w.place, t.seq"
    )
});

pub(crate) async fn open_commands(store: &PgStore, lanes: &[SubmitterId]) -> Result<Vec<Vec<Command>>, StoreError> {
    let ids: Vec<&str> = lanes.iter().map(SubmitterId::as_str).collect();
    let rows = store
        .with_session("reading open commands", async |session| {
            let statement = session.prepared(COMMANDS).await?;
            session.client().query(&statement, &[&ids, &i64::from(MAX_OPEN_COMMANDS)]).await
        })
        .await?;
    by_place(&rows, lanes.iter(), |row, _| Ok(command(row)?))
}

/// The rows of each lane of the question, by their place, which counts from 1.
fn by_place<P, T>(
    rows: &[Row],
    places: impl Iterator<Item = P>,
    read: impl Fn(&Row, &P) -> Result<T, StoreError>,
) -> Result<Vec<Vec<T>>, StoreError> {
    let mut found: HashMap<i64, Vec<&Row>> = HashMap::new();
    for row in rows {
        found.entry(get(row, "place")?).or_default().push(row);
    }
    let of_place = |(number, place): (i64, P)| {
        let rows = found.remove(&number).unwrap_or_default();
        rows.into_iter().map(|row| read(row, &place)).collect()
    };
    (1..).zip(places).map(of_place).collect()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test owns its names and tasks")]
mod tests {
    use gapless_testbed::Postgres;
    use tokio_postgres::{Client, NoTls};

    use super::*;
    use crate::schema::MIGRATIONS;

    /// The intents of one lane that come before its queue.
    const BOUND: i64 = 20_000;

    /// A peek reads the rows that it returns and no others, with and without statistics of the table.
    #[tokio::test]
    async fn peek_reads_no_intent_that_holds_a_nonce() {
        let base = Postgres::shared_url().unwrap();
        let name = format!("t_{}", uuid::Uuid::new_v4().simple());
        connect(&format!("{base}/postgres")).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let client = connect(&format!("{base}/{name}")).await;
        for step in MIGRATIONS {
            client.batch_execute(step.sql).await.unwrap();
        }
        client.batch_execute("ALTER TABLE managed_tx SET (autovacuum_enabled = off)").await.unwrap();
        let rows = format!(
            "INSERT INTO managed_tx (tx_id, submitter, request_id, payload, speed, state, sub_state, nonce, detail,
                 version, fencing_token)
             SELECT gen_random_uuid(), 'a', n::text, '{{}}', 'fast', 'TRACKING', 'MINED', n, '{{}}', 3, 1
             FROM generate_series(1, {BOUND}) n;
             INSERT INTO managed_tx (tx_id, submitter, request_id, payload, speed, state, detail, version)
             SELECT gen_random_uuid(), lane, 'q' || n, '{{}}', 'fast', 'QUEUED', '{{}}', 1
             FROM generate_series(1, 5) n, (VALUES ('a'), ('b')) AS of (lane)"
        );
        client.batch_execute(&rows).await.unwrap();
        assert_uses_queue_index(&client).await;
        client.batch_execute("ANALYZE managed_tx").await.unwrap();
        assert_uses_queue_index(&client).await;
        client.batch_execute("DELETE FROM managed_tx WHERE submitter = 'a' AND nonce IS NULL").await.unwrap();
        assert_uses_queue_index(&client).await;
        client.batch_execute("DROP INDEX managed_tx_queue").await.unwrap();
        assert!(
            plan(&client).await.contains("Rows Removed"),
            "without the index the plan would not change, so this test would show nothing"
        );
    }

    async fn assert_uses_queue_index(client: &Client) {
        let plan = plan(client).await;
        assert!(plan.contains("using managed_tx_queue"), "{plan}");
        assert!(!plan.contains("Rows Removed"), "{plan}");
    }

    /// The plan of a peek at ten intents of one lane and two of another, one step in each line.
    async fn plan(client: &Client) -> String {
        let sql = QUEUES.replace("$1::text[]", "'{a,b}'::text[]").replace("$2::bigint[]", "'{10,2}'::bigint[]");
        let sql = sql.replace("$3::uuid[]", "'{}'::uuid[]");
        let steps = client.query(&format!("EXPLAIN (ANALYZE) {sql}"), &[]).await.unwrap();
        steps.iter().map(|step| format!("{}\n", step.get::<_, String>(0))).collect()
    }

    async fn connect(url: &str) -> Client {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}
