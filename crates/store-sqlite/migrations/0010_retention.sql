-- Retention deletes the events and the attempts of moved-out intents some time after the intents were moved out.

-- ended_at: the end of the intent. has_events, has_attempts: the document still holds them. Attempts may also be in
-- tx_attempt, where the nonce was open when the intent was moved out.
ALTER TABLE archived_tx ADD COLUMN ended_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE archived_tx ADD COLUMN has_events INTEGER NOT NULL DEFAULT 1 CHECK (has_events IN (0, 1));
ALTER TABLE archived_tx ADD COLUMN has_attempts INTEGER NOT NULL DEFAULT 1 CHECK (has_attempts IN (0, 1));
UPDATE archived_tx SET ended_at = coalesce(doc ->> '$.tx.updated_at', archived_at),
    has_attempts = json_array_length(doc, '$.attempts') > 0;
CREATE INDEX archived_tx_events ON archived_tx (ended_at) WHERE has_events = 1;
CREATE INDEX archived_tx_attempts ON archived_tx (ended_at) WHERE has_attempts = 1;

CREATE INDEX tx_event_of_lanes ON tx_event (commit_no, idx) WHERE tx_id IS NULL;
CREATE INDEX lane_command_done ON lane_command (done_at) WHERE done_at IS NOT NULL;

-- A process that looks dead: its last sign of life when it was marked, and when that was.
ALTER TABLE node ADD COLUMN dead_seen_at INTEGER;
ALTER TABLE node ADD COLUMN dead_marked_at INTEGER;

-- The process that applies retention. One row.
CREATE TABLE retention_claim (
    one          INTEGER PRIMARY KEY CHECK (one = 1),
    owner_node   TEXT    NOT NULL,
    locked_until INTEGER NOT NULL
) STRICT;
