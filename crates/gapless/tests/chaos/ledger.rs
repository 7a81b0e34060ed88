//! The ledger at the end of a run: the intents of the API, and the rows of the database.

use std::collections::BTreeMap;

use gapless_wire::{Client, ListQuery, PageQuery, TxStateName};

use crate::callers::LANES;
use crate::cluster::ChaosCluster;

/// Plain data of the ledger, with one entry per submitter.
#[derive(Clone, Debug)]
pub(crate) struct LedgerSnapshot {
    pub(crate) lanes: Vec<LaneRows>,
}

#[derive(Clone, Debug)]
pub(crate) struct LaneRows {
    pub(crate) submitter: String,
    pub(crate) address: String,
    pub(crate) next_nonce: u64,
    pub(crate) protect: Option<String>,
    pub(crate) intents: Vec<IntentRow>,
    /// The slots by nonce.
    pub(crate) slots: BTreeMap<u64, SlotRow>,
    pub(crate) attempts: Vec<AttemptRow>,
    /// The events of each intent, in order.
    pub(crate) events: BTreeMap<String, Vec<EventRow>>,
}

/// An intent as the API shows it.
#[derive(Clone, Debug)]
pub(crate) struct IntentRow {
    pub(crate) tx_id: String,
    pub(crate) request_id: String,
    pub(crate) state: TxStateName,
    pub(crate) version: u32,
    /// The hash of the mined transaction.
    pub(crate) hash: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct SlotRow {
    pub(crate) kind: String,
    pub(crate) tx_id: Option<String>,
    pub(crate) evidence: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct AttemptRow {
    pub(crate) nonce: u64,
    pub(crate) kind: String,
    pub(crate) hash: String,
}

#[derive(Clone, Debug)]
pub(crate) struct EventRow {
    pub(crate) seq: u64,
    pub(crate) state: String,
}

const CURSOR: &str = "
    SELECT s.submitter, c.next_nonce, c.protect_code
    FROM submitter s JOIN submitter_nonce_cursor c USING (submitter) WHERE s.alias = $1";
const SLOTS: &str = "SELECT nonce, kind, tx_id::text, evidence FROM slot WHERE submitter = $1";
const ATTEMPTS: &str = "
    SELECT nonce, kind, '0x' || encode(hash, 'hex') FROM tx_attempt WHERE submitter = $1 ORDER BY nonce, ordinal";
const EVENTS: &str = "
    SELECT tx_id::text, seq, state FROM tx_event WHERE submitter = $1 AND tx_id IS NOT NULL ORDER BY tx_id, seq";

impl LedgerSnapshot {
    pub(crate) async fn read(cluster: &ChaosCluster) -> Self {
        let (client, rows) = (cluster.node_clients().client(0), cluster.servers.raw().await);
        let mut lanes = Vec::new();
        for submitter in LANES.map(|lane| lane.submitter()) {
            let cursor = rows.query_one(CURSOR, &[&submitter]).await.unwrap();
            let name: String = cursor.get(0);
            let mut lane = LaneRows {
                address: name.rsplit(':').next().unwrap().to_owned(),
                next_nonce: number(cursor.get(1)),
                protect: cursor.get(2),
                intents: intents(&client, &submitter).await,
                slots: BTreeMap::new(),
                attempts: Vec::new(),
                events: BTreeMap::new(),
                submitter,
            };
            for row in rows.query(SLOTS, &[&name]).await.unwrap() {
                let slot = SlotRow { kind: row.get(1), tx_id: row.get(2), evidence: row.get(3) };
                lane.slots.insert(number(row.get(0)), slot);
            }
            for row in rows.query(ATTEMPTS, &[&name]).await.unwrap() {
                lane.attempts.push(AttemptRow { nonce: number(row.get(0)), kind: row.get(1), hash: row.get(2) });
            }
            for row in rows.query(EVENTS, &[&name]).await.unwrap() {
                let event = EventRow { seq: number(row.get(1)), state: row.get(2) };
                lane.events.entry(row.get(0)).or_default().push(event);
            }
            lanes.push(lane);
        }
        LedgerSnapshot { lanes }
    }
}

async fn intents(client: &Client, submitter: &str) -> Vec<IntentRow> {
    let (mut intents, mut cursor) = (Vec::new(), None);
    loop {
        let page = PageQuery { limit: Some(200), cursor };
        let query = ListQuery { submitter: Some(submitter.to_owned()), state: None, page };
        let page = client.list_tx(&query).await.unwrap();
        intents.extend(page.items.into_iter().map(|tx| IntentRow {
            tx_id: tx.tx_id,
            request_id: tx.request_id,
            state: tx.state,
            version: tx.version,
            hash: tx.hash,
        }));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return intents;
        }
    }
}

fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap()
}
