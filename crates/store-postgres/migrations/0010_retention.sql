-- Retention deletes the events and the attempts of moved-out intents some time after the intents were moved out.
--
-- From here on intents are moved out by the names of their columns: archived_tx has columns of its own.

-- has_events, has_attempts: the intent still has some in archived_event and archived_attempt, or in tx_attempt where the
-- nonce was open when the intent was moved out.
ALTER TABLE archived_tx
    ADD COLUMN has_events BOOLEAN NOT NULL DEFAULT TRUE,
    ADD COLUMN has_attempts BOOLEAN NOT NULL DEFAULT TRUE;
CREATE INDEX archived_tx_events ON archived_tx (ended_at) WHERE has_events;
CREATE INDEX archived_tx_attempts ON archived_tx (ended_at) WHERE has_attempts;

CREATE INDEX tx_event_of_lanes ON tx_event (xid, id) WHERE tx_id IS NULL;
CREATE INDEX lane_command_done ON lane_command (done_at) WHERE done_at IS NOT NULL;

-- A process that looks dead: its last sign of life when it was marked, and when that was.
ALTER TABLE node
    ADD COLUMN dead_seen_at TIMESTAMPTZ,
    ADD COLUMN dead_marked_at TIMESTAMPTZ;

-- The process that applies retention. One row.
CREATE TABLE retention_claim (
    one           BOOLEAN PRIMARY KEY CHECK (one),
    owner_node    TEXT COLLATE "C" NOT NULL,
    locked_until  TIMESTAMPTZ NOT NULL
);

-- Transaction ids start again on another server, and events are read in the order of (xid, id). So each server adds an
-- offset that raises its ids above all positions that were ever given before (docs/adr/0011-event-positions.md). One row.
CREATE TABLE event_origin (
    one         BOOLEAN PRIMARY KEY CHECK (one),
    xid_offset  BIGINT NOT NULL CHECK (xid_offset >= 0)
);
INSERT INTO event_origin VALUES (TRUE, 0);

-- The position of the events that the current transaction writes. A statement that writes many events calls this once,
-- in a subquery.
CREATE FUNCTION event_xid() RETURNS XID8 LANGUAGE SQL STABLE AS
    'SELECT (xid_offset + pg_current_xact_id()::text::bigint)::text::xid8 FROM event_origin';
ALTER TABLE tx_event ALTER COLUMN xid SET DEFAULT event_xid();
