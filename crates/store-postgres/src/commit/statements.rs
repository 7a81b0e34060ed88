//! The statements of the second flight, each with the row that it takes.
//!
//! Most of them demand their exact number of rows: `1 / (count(*) = {count})::int` divides by zero when it is another
//! one. That fails the transaction, so that the COMMIT behind it, which is already on its way, becomes a rollback.
//! Every change of a row also demands that no newer owner wrote the row.

use std::time::SystemTime;

use uuid::Uuid;

use crate::bulk::bulk_statement;

bulk_statement! {
    pub(super) fn extend_leases(
        LeaseExtension<'a> { submitter: &'a str as "text", fencing_token: i64 as "bigint" },
        owner: &'a str as "text",
        duration_micros: i64 as "bigint",
    ) = "
    WITH w AS (
        UPDATE submitter_lease l
        SET expires_at = clock_timestamp() + {duration_micros} * interval '1 microsecond',
            updated_at = clock_timestamp()
        FROM {rows}
        WHERE l.submitter = i.submitter AND l.fencing_token = i.fencing_token AND l.owner_node = {owner}
        RETURNING 1
    ) SELECT 1 / (count(*) = {count})::int FROM w";
}

bulk_statement! {
    pub(super) fn write_cursors(
        CursorWrite<'a> {
            submitter: &'a str as "text",
            next_nonce: i64 as "bigint",
            chain_nonce: i64 as "bigint",
            final_nonce: i64 as "bigint",
            open_nonce: i64 as "bigint",
            state: &'a str as "text",
            protect_code: Option<&'a str> as "text",
            protect_detail: Option<&'a str> as "text",
            paused: bool as "boolean",
            low_balance: bool as "boolean",
            version: i64 as "bigint",
            event_seq: i64 as "bigint",
            epoch: i64 as "bigint",
            fencing_token: i64 as "bigint",
        },
        at: SystemTime as "timestamptz",
    ) = "
    WITH w AS (
        INSERT INTO submitter_nonce_cursor AS c ({columns}, updated_at)
        SELECT {columns}, {at} FROM {rows}
        ON CONFLICT (submitter) DO UPDATE SET
            next_nonce = excluded.next_nonce, chain_nonce = excluded.chain_nonce, final_nonce = excluded.final_nonce,
            open_nonce = excluded.open_nonce, state = excluded.state, protect_code = excluded.protect_code,
            protect_detail = excluded.protect_detail, paused = excluded.paused, low_balance = excluded.low_balance,
            version = excluded.version, event_seq = excluded.event_seq, epoch = excluded.epoch,
            fencing_token = excluded.fencing_token, updated_at = excluded.updated_at
        WHERE c.version = excluded.version - 1 AND c.fencing_token <= excluded.fencing_token
          AND c.next_nonce <= excluded.next_nonce AND c.final_nonce <= excluded.final_nonce
          AND c.open_nonce <= excluded.open_nonce
        RETURNING 1
    ) SELECT 1 / (count(*) = {count})::int FROM w";
}

bulk_statement! {
    pub(super) fn bind_slots(
        SlotWrite<'a> {
            submitter: &'a str as "text",
            nonce: i64 as "bigint",
            kind: &'static str as "text",
            tx_id: Option<Uuid> as "uuid",
            fencing_token: i64 as "bigint",
            above_block: Option<i64> as "bigint",
            above_hash: Option<&'a [u8]> as "bytea",
            evidence: Option<&'a str> as "text",
        },
        at: SystemTime as "timestamptz",
    ) = "INSERT INTO slot ({columns}, bound_at) SELECT {columns}, {at} FROM {rows}";
}

bulk_statement! {
    pub(super) fn change_intents(
        IntentChange {
            tx_id: Uuid as "uuid",
            from_version: i32 as "integer",
            to_version: i32 as "integer",
            state: &'static str as "text",
            sub_state: Option<&'static str> as "text",
            nonce: Option<i64> as "bigint",
            detail: String as "text",
            ended: bool as "boolean",
            fencing_token: i64 as "bigint",
            replacement: Option<String> as "text",
        },
        at: SystemTime as "timestamptz",
    ) = "
    WITH w AS (
        UPDATE managed_tx t
        SET state = i.state, sub_state = i.sub_state, nonce = i.nonce, detail = i.detail::jsonb, version = i.to_version,
            fencing_token = i.fencing_token, updated_at = {at}, ended_at = CASE WHEN i.ended THEN {at} END,
            replacement = coalesce(i.replacement::jsonb, t.replacement)
        FROM {rows}
        WHERE t.tx_id = i.tx_id AND t.version = i.from_version AND t.fencing_token <= i.fencing_token
          AND t.ended_at IS NULL
        RETURNING 1
    ) SELECT 1 / (count(*) = {count})::int FROM w";
}

bulk_statement! {
    pub(super) fn write_reservations(
        ReservationWrite<'a> {
            submitter: &'a str as "text",
            nonce: i64 as "bigint",
            status: &'a str as "text",
            tx_id: Option<Uuid> as "uuid",
            lock_owner: Option<&'a str> as "text",
            locked_until: Option<SystemTime> as "timestamptz",
            fencing_token: i64 as "bigint",
        },
    ) = "
    WITH w AS (
        INSERT INTO submitter_nonce_allocation AS r ({columns})
        SELECT {columns} FROM {rows}
        ON CONFLICT (submitter, nonce) DO UPDATE SET
            status = excluded.status, tx_id = excluded.tx_id, lock_owner = excluded.lock_owner,
            locked_until = excluded.locked_until, fencing_token = excluded.fencing_token
        WHERE r.fencing_token <= excluded.fencing_token
        RETURNING 1
    ) SELECT 1 / (count(*) = {count})::int FROM w";
}

bulk_statement! {
    /// A nonce that is reserved or recyclable takes no attempt: it is signed for by its caller, or reserved again.
    pub(super) fn add_attempts(
        AttemptWrite<'a> {
            submitter: &'a str as "text",
            nonce: i64 as "bigint",
            ordinal: i16 as "smallint",
            kind: &'static str as "text",
            hash: &'a [u8] as "bytea",
            raw: &'a [u8] as "bytea",
            fees: String as "text",
            fencing_token: i64 as "bigint",
        },
        at: SystemTime as "timestamptz",
    ) = "
    WITH w AS (
        INSERT INTO tx_attempt (submitter, nonce, ordinal, kind, hash, raw, fees, fencing_token, created_at, tx_id)
        SELECT i.submitter, i.nonce, i.ordinal, i.kind, i.hash, i.raw, i.fees::jsonb, i.fencing_token, {at},
            coalesce(s.tx_id, r.tx_id)
        FROM {rows}
        JOIN slot s ON (s.submitter, s.nonce) = (i.submitter, i.nonce)
        LEFT JOIN submitter_nonce_allocation r ON (r.submitter, r.nonce) = (i.submitter, i.nonce)
        WHERE r.status IS NULL OR r.status = 'USED'
        RETURNING 1
    ) SELECT 1 / (count(*) = {count})::int FROM w";
}

bulk_statement! {
    /// The history keeps the newest `kept` sends. A JSON path is lax: a shorter list is kept whole. An attempt that is
    /// sent for the first time, as most are, has no history to append to.
    pub(super) fn report_sends(
        SendWrite<'a> {
            submitter: &'a str as "text",
            nonce: i64 as "bigint",
            hash: &'a [u8] as "bytea",
            times: i32 as "integer",
            outcome: &'static str as "text",
            text: &'a str as "text",
            fencing_token: i64 as "bigint",
            sent: String as "text",
        },
        at: SystemTime as "timestamptz",
        kept: i64 as "bigint",
    ) = "
    WITH w AS (
        UPDATE tx_attempt a
        SET sends = a.sends + i.times, last_sent_at = {at}, last_outcome = i.outcome, last_text = i.text,
            fencing_token = i.fencing_token,
            history = CASE WHEN a.sends = 0 AND i.times <= {kept} THEN i.sent::jsonb ELSE jsonb_path_query_array(
                a.history || i.sent::jsonb, '$[last - $kept + 1 to last]', jsonb_build_object('kept', {kept})) END
        FROM {rows}
        WHERE (a.submitter, a.nonce) = (i.submitter, i.nonce) AND a.hash = i.hash
          AND a.fencing_token <= i.fencing_token
        RETURNING 1
    ) SELECT 1 / (count(*) = {count})::int FROM w";
}

bulk_statement! {
    pub(super) fn claim_resubmits(
        ClaimWrite<'a> {
            submitter: &'a str as "text",
            nonce: i64 as "bigint",
            pause_micros: i64 as "bigint",
            fencing_token: i64 as "bigint",
            tries: i32 as "integer",
            signal: Option<&'static str> as "text",
        },
        at: SystemTime as "timestamptz",
    ) = "
    WITH w AS (
        UPDATE slot s
        SET next_resubmit_at = {at} + i.pause_micros * interval '1 microsecond', fencing_token = i.fencing_token,
            tries = i.tries, signal = coalesce(i.signal, s.signal)
        FROM {rows}
        WHERE (s.submitter, s.nonce) = (i.submitter, i.nonce) AND s.fencing_token <= i.fencing_token
        RETURNING 1
    ) SELECT 1 / (count(*) = {count})::int FROM w";
}

bulk_statement! {
    /// A command that was finished before keeps its first result.
    pub(super) fn finish_commands(
        CommandFinish<'a> {
            submitter: &'a str as "text",
            id: i64 as "bigint",
            result: &'a str as "text",
            refused: bool as "boolean",
        },
        at: SystemTime as "timestamptz",
    ) = "
    UPDATE lane_command c SET done_at = {at}, result = i.result, refused = i.refused
    FROM {rows}
    WHERE c.id = i.id AND c.submitter = i.submitter AND c.done_at IS NULL";
}

bulk_statement! {
    /// After the changes of this commit, no intent below the new open nonce of a lane may still hold its nonce.
    pub(super) fn check_closed(
        ClosedRange<'a> { submitter: &'a str as "text", was_open: i64 as "bigint", open: i64 as "bigint" },
    ) = "
    SELECT 1 / (count(*) = 0)::int
    FROM {rows}
    JOIN slot s ON s.submitter = i.submitter AND s.nonce >= i.was_open AND s.nonce < i.open
    LEFT JOIN submitter_nonce_allocation r ON (r.submitter, r.nonce) = (s.submitter, s.nonce)
    JOIN managed_tx t ON t.tx_id = coalesce(s.tx_id, r.tx_id) AND t.nonce = s.nonce AND t.ended_at IS NULL";
}

bulk_statement! {
    pub(super) fn write_events(
        EventWrite<'a> {
            submitter: &'a str as "text",
            tx_id: Option<Uuid> as "uuid",
            seq: i64 as "bigint",
            kind: &'static str as "text",
            state: Option<&'static str> as "text",
            nonce: Option<i64> as "bigint",
            detail: Option<String> as "text",
            text: Option<&'a str> as "text",
            notice: Option<String> as "text",
        },
        at: SystemTime as "timestamptz",
    ) = "
    INSERT INTO tx_event (xid, submitter, tx_id, seq, kind, state, nonce, detail, text, notice, at)
    SELECT (SELECT event_xid()), submitter, tx_id, seq, kind, state, nonce, detail::jsonb, text, notice::jsonb, {at}
    FROM {ordered_rows} ORDER BY place";
}

bulk_statement! {
    pub(super) fn write_audits(
        AuditWrite<'a> {
            subject: &'a str as "text",
            actor: &'a str as "text",
            action: &'a str as "text",
            detail: &'a str as "text",
        },
        at: SystemTime as "timestamptz",
    ) = "
    INSERT INTO audit_log ({columns}, at)
    SELECT {columns}, {at} FROM {ordered_rows} ORDER BY place";
}
