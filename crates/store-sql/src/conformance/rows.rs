//! Rows of older schemas, with the columns and the JSON that the code of that time wrote.

use gapless_domain::{B256, Nonce, SubmitterId, Timestamp, TxId};
use gapless_store::conformance::fixtures as f;
use gapless_store::{Store, StoreError};
use std::sync::Arc;

use super::harness::{FixtureRow, MigrationHarness};

/// The time of all rows: before the clock of every database under test.
pub(super) const WRITTEN_AT: Timestamp = Timestamp::from_micros(1_600_000_000_000_000);

/// A time that the clock of no database under test reaches.
pub(super) const FAR_FUTURE: Timestamp = Timestamp::from_micros(4_000_000_000_000_000);

/// A transfer of one wei, as the first release wrote it.
pub(super) const TRANSFER: &str =
    r#"{"kind":"evm","to":"0x1111111111111111111111111111111111111111","value":"1","data":"0x"}"#;

/// Opens the database that was created at `version`: not without leave to migrate, and then with it.
pub(super) async fn migrated(h: &dyn MigrationHarness, version: i64) -> Arc<dyn Store> {
    let newest = h.migrations().last().unwrap().version;
    let found = h.migrations().iter().map(|step| step.version).filter(|step| *step <= version).max().unwrap();
    match h.open(false).await {
        Ok(_) => assert_eq!(found, newest, "an older schema was opened without leave to migrate"),
        Err(StoreError::SchemaIsOlder { found: told, known }) => assert_eq!((told, known), (found, newest)),
        Err(other) => panic!("{other}"),
    }
    h.open(true).await.unwrap()
}

pub(super) fn submitter(lane: &SubmitterId) -> FixtureRow {
    FixtureRow::new("submitter").with("submitter", lane.as_str()).with("created_at", WRITTEN_AT)
}

/// A cursor in flight, without final transactions.
pub(super) fn cursor(lane: &SubmitterId, next_nonce: i64, version: i64, event_seq: i64, paused: bool) -> FixtureRow {
    FixtureRow::new("submitter_nonce_cursor")
        .with("submitter", lane.as_str())
        .with("next_nonce", next_nonce)
        .with("chain_nonce", 0_i64)
        .with("final_nonce", 0_i64)
        .with("open_nonce", 0_i64)
        .with("state", "IN_FLIGHT")
        .with("paused", paused)
        .with("version", version)
        .with("event_seq", event_seq)
        .with("fencing_token", 1_i64)
        .with("updated_at", WRITTEN_AT)
}

/// An intent with its request key.
#[derive(Clone, Debug)]
pub(super) struct IntentFixture<'a> {
    pub(super) id: TxId,
    pub(super) seq: i64,
    pub(super) request_id: &'a str,
    pub(super) payload: &'a str,
    pub(super) payload_hash: B256,
    pub(super) state: &'a str,
    pub(super) sub_state: Option<&'a str>,
    pub(super) nonce: Option<i64>,
    pub(super) detail: String,
    pub(super) version: i64,
}

impl IntentFixture<'_> {
    /// A transfer in the queue.
    pub(super) fn queued(request_id: &str, seq: i64) -> IntentFixture<'_> {
        IntentFixture {
            id: f::fresh_id(),
            seq,
            request_id,
            payload: TRANSFER,
            payload_hash: f::transfer(1).fingerprint().0,
            state: "QUEUED",
            sub_state: None,
            nonce: None,
            detail: "{}".to_owned(),
            version: 1,
        }
    }

    pub(super) fn key(&self, lane: &SubmitterId) -> FixtureRow {
        FixtureRow::new("request_key")
            .with("submitter", lane.as_str())
            .with("request_id", self.request_id)
            .with("payload_hash", self.payload_hash)
            .with("tx_id", self.id)
    }

    pub(super) fn row(&self, lane: &SubmitterId) -> FixtureRow {
        FixtureRow::new("managed_tx")
            .with("tx_id", self.id)
            .with("seq", self.seq)
            .with("submitter", lane.as_str())
            .with("request_id", self.request_id)
            .with("payload", self.payload)
            .with("speed", "standard")
            .with("state", self.state)
            .with_some("sub_state", self.sub_state)
            .with_some("nonce", self.nonce)
            .with("detail", self.detail.clone())
            .with("version", self.version)
            .with("fencing_token", i64::from(self.version > 1))
            .with("created_at", WRITTEN_AT)
            .with("updated_at", WRITTEN_AT)
    }
}

pub(super) fn slot(lane: &SubmitterId, nonce: i64, kind: &str, tx_id: Option<TxId>) -> FixtureRow {
    FixtureRow::new("slot")
        .with("submitter", lane.as_str())
        .with("nonce", nonce)
        .with("kind", kind)
        .with_some("tx_id", tx_id)
        .with("fencing_token", 1_i64)
        .with("bound_at", WRITTEN_AT)
}

/// The hash of the first attempt at a nonce, here and in [`f::attempt`].
pub(super) fn attempt_hash(nonce: i64) -> B256 {
    f::attempt(number(nonce), 0, "bind").hash
}

/// The first attempt at a nonce.
pub(super) fn attempt(lane: &SubmitterId, nonce: i64, tx_id: Option<TxId>, kind: &str) -> FixtureRow {
    let new = f::attempt(number(nonce), 0, "bind");
    FixtureRow::new("tx_attempt")
        .with("submitter", lane.as_str())
        .with("nonce", nonce)
        .with("ordinal", 0_i64)
        .with_some("tx_id", tx_id)
        .with("kind", kind)
        .with("hash", new.hash)
        .with("raw", new.raw.to_vec())
        .with("fees", r#"{"max_fee":"10","max_priority_fee":"1"}"#)
        .with("fencing_token", 1_i64)
        .with("created_at", WRITTEN_AT)
}

/// The columns of an attempt that was sent once.
pub(super) fn sent(attempt: FixtureRow) -> FixtureRow {
    attempt
        .with("sends", 1_i64)
        .with("last_sent_at", WRITTEN_AT)
        .with("last_outcome", "accepted")
        .with("last_text", "taken")
}

pub(super) fn event(
    lane: &SubmitterId,
    id: TxId,
    seq: i64,
    kind: &str,
    state: (&str, Option<i64>, &str),
) -> FixtureRow {
    let (state, nonce, detail) = state;
    FixtureRow::new("tx_event")
        .with("submitter", lane.as_str())
        .with("tx_id", id)
        .with("seq", seq)
        .with("kind", kind)
        .with("state", state)
        .with_some("nonce", nonce)
        .with("detail", detail)
        .with("at", WRITTEN_AT)
}

pub(super) fn lane_event(lane: &SubmitterId, seq: i64, kind: &str, text: &str) -> FixtureRow {
    FixtureRow::new("tx_event")
        .with("submitter", lane.as_str())
        .with("seq", seq)
        .with("kind", kind)
        .with("text", text)
        .with("at", WRITTEN_AT)
}

/// A command; with a result it is done.
pub(super) fn command(lane: &SubmitterId, kind: &str, body: &str, result: Option<&str>) -> FixtureRow {
    FixtureRow::new("lane_command")
        .with("submitter", lane.as_str())
        .with("kind", kind)
        .with("body", body)
        .with("issued_by", "op")
        .with("issued_at", WRITTEN_AT)
        .with_some("done_at", result.map(|_| WRITTEN_AT))
        .with_some("result", result)
}

/// The head of a chain with the columns of the first schema: the newest block and the final one.
pub(super) fn head(chain: &str, number: u64, final_number: u64) -> FixtureRow {
    let (newest, finalized) = (f::link(number), f::block(final_number));
    FixtureRow::new("chain_head")
        .with("chain", chain)
        .with("number", i64::try_from(number).unwrap())
        .with("hash", newest.block.hash)
        .with("parent_hash", newest.parent_hash)
        .with("final_number", i64::try_from(final_number).unwrap())
        .with("final_hash", finalized.hash)
        .with("updated_at", WRITTEN_AT)
}

/// The JSON of an inclusion of the first attempt at a nonce, without the outer braces.
pub(super) fn inclusion_json(nonce: i64, kind: &str, block: u64, parent: Option<B256>, revert: &str) -> String {
    let parent = parent.map(|hash| format!(r#","parent_hash":"{hash}""#)).unwrap_or_default();
    let (hash, block_hash) = (attempt_hash(nonce), f::block(block).hash);
    let transaction = format!(r#""hash":"{hash}","kind":"{kind}""#);
    let block = format!(r#""block_number":{block},"block_hash":"{block_hash}"{parent}"#);
    format!(r#""inclusion":{{{transaction},{block},"gas_used":21000,"gas_price":"7"{revert}}}"#)
}

pub(super) fn number(nonce: i64) -> Nonce {
    f::nonce(u64::try_from(nonce).unwrap())
}
