//! The statements that write a lane commit, each with its parameters.

use crate::statement::statement;

statement! {
    pub(crate) struct CursorWrite<'a> {
        submitter: &'a str,
        next_nonce: i64,
        chain_nonce: i64,
        final_nonce: i64,
        open_nonce: i64,
        state: &'a str,
        protect_code: Option<&'a str>,
        protect_detail: Option<&'a str>,
        paused: bool,
        version: i64,
        event_seq: i64,
        epoch: i64,
        fencing_token: i64,
        updated_at: i64,
        low_balance: bool,
    } = "INSERT OR REPLACE INTO submitter_nonce_cursor ({columns}) VALUES ({values})";
}

statement! {
    pub(crate) struct SlotInsert<'a> {
        submitter: &'a str,
        nonce: i64,
        kind: &'static str,
        tx_id: Option<String>,
        fencing_token: i64,
        bound_at: i64,
        above_block: Option<i64>,
        above_hash: Option<[u8; 32]>,
        evidence: Option<&'a str>,
    } = "INSERT INTO slot ({columns}) VALUES ({values})";
}

statement! {
    pub(crate) struct AttemptInsert<'a> {
        submitter: &'a str,
        nonce: i64,
        ordinal: u16,
        tx_id: Option<String>,
        kind: &'static str,
        hash: &'a [u8],
        raw: &'a [u8],
        fees: String,
        fencing_token: i64,
        created_at: i64,
    } = "INSERT INTO tx_attempt ({columns}) VALUES ({values})";
}

statement! {
    /// One send. The history keeps the newest `kept` sends.
    pub(crate) struct SendUpdate<'a> {
        submitter: &'a str,
        nonce: i64,
        hash: &'a [u8],
        sent_at: i64,
        outcome: &'static str,
        text: &'a str,
        fencing_token: i64,
        sent: String,
        kept: i64,
    } = "UPDATE tx_attempt SET sends = sends + 1, last_sent_at = {sent_at}, last_outcome = {outcome},
             last_text = {text}, fencing_token = {fencing_token},
             history = json_insert(
                 CASE WHEN json_array_length(history) < {kept} THEN history ELSE json_remove(history, '$[0]') END,
                 '$[#]', json_extract({sent}, '$[0]'))
         WHERE submitter = {submitter} AND nonce = {nonce} AND hash = {hash}";
}

statement! {
    pub(crate) struct ClaimUpdate<'a> {
        submitter: &'a str,
        nonce: i64,
        next_resubmit_at: i64,
        fencing_token: i64,
        tries: u16,
        signal: Option<&'static str>,
    } = "UPDATE slot SET next_resubmit_at = {next_resubmit_at}, fencing_token = {fencing_token}, tries = {tries},
             signal = coalesce({signal}, signal)
         WHERE submitter = {submitter} AND nonce = {nonce}";
}

statement! {
    /// A command that is done already keeps its result.
    pub(crate) struct CommandUpdate<'a> { id: i64, submitter: &'a str, done_at: i64, result: &'a str, refused: bool } =
        "UPDATE lane_command SET done_at = {done_at}, result = {result}, refused = {refused}
         WHERE id = {id} AND submitter = {submitter} AND done_at IS NULL";
}

statement! {
    pub(crate) struct LaneEventInsert<'a> {
        commit_no: i64,
        idx: i64,
        submitter: &'a str,
        seq: i64,
        kind: &'static str,
        text: &'a str,
        at: i64,
    } = "INSERT INTO tx_event ({columns}) VALUES ({values})";
}

statement! {
    pub(crate) struct ReservationWrite<'a> {
        submitter: &'a str,
        nonce: i64,
        status: &'a str,
        tx_id: Option<String>,
        lock_owner: Option<&'a str>,
        locked_until: Option<i64>,
        fencing_token: i64,
    } = "INSERT INTO submitter_nonce_allocation ({columns}) VALUES ({values})
         ON CONFLICT (submitter, nonce) DO UPDATE SET status = excluded.status, tx_id = excluded.tx_id,
             lock_owner = excluded.lock_owner, locked_until = excluded.locked_until,
             fencing_token = excluded.fencing_token";
}

statement! {
    /// Without a token, the row keeps its token.
    pub(crate) struct IntentUpdate<'a> {
        tx_id: &'a str,
        state: &'static str,
        sub_state: Option<&'static str>,
        nonce: Option<i64>,
        detail: &'a str,
        version: u32,
        updated_at: i64,
        fencing_token: Option<i64>,
        replacement: Option<String>,
    } = "UPDATE managed_tx SET state = {state}, sub_state = {sub_state}, nonce = {nonce}, detail = {detail},
             version = {version}, updated_at = {updated_at}, fencing_token = coalesce({fencing_token}, fencing_token),
             replacement = coalesce({replacement}, replacement)
         WHERE tx_id = {tx_id}";
}

statement! {
    pub(crate) struct IntentEventInsert<'a> {
        commit_no: i64,
        idx: i64,
        submitter: &'a str,
        tx_id: &'a str,
        seq: u32,
        kind: &'static str,
        state: &'static str,
        sub_state: Option<&'static str>,
        nonce: Option<i64>,
        detail: &'a str,
        at: i64,
        notice: Option<String>,
    } = "INSERT INTO tx_event ({columns}) VALUES ({values})";
}
