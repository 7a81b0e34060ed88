-- What it takes to bring the ledger and the chain together again: where to look for what used a nonce, what shows that it was
-- somebody else, and who has decided what.

-- above_block: this block was final before anything could be sent for the slot.
ALTER TABLE slot ADD COLUMN above_block INTEGER CHECK (above_block >= 0);
ALTER TABLE slot ADD COLUMN evidence TEXT CHECK (evidence IS NULL OR kind = 'foreign');

ALTER TABLE submitter_nonce_cursor ADD COLUMN low_balance INTEGER NOT NULL DEFAULT 0 CHECK (low_balance IN (0, 1));

-- A command that was refused is done as well: its result says why.
ALTER TABLE lane_command ADD COLUMN
    refused INTEGER NOT NULL DEFAULT 0 CHECK (refused IN (0, 1) AND (refused = 0 OR done_at IS NOT NULL));

-- Rows are never changed, and never deleted by the program. The subject is a submitter, a chain, or 'store'.
CREATE TABLE audit_log (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    subject TEXT    NOT NULL,
    actor   TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    detail  TEXT    NOT NULL
) STRICT;
CREATE INDEX audit_log_subject ON audit_log (subject, id);
