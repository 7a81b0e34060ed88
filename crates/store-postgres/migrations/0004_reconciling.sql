-- What it takes to bring the ledger and the chain together again: where to look for what used a nonce, what shows that it was
-- somebody else, and who has decided what.
--
-- No CHECK looks at the slots that are there: they are kept for ever, all of them have NULL, and the table stays locked while a
-- large one is read.

-- above_block: this block was final before anything could be sent for the slot.
ALTER TABLE slot
    ADD COLUMN above_block BIGINT,
    ADD COLUMN evidence TEXT,
    ADD CONSTRAINT above_a_block CHECK (above_block >= 0) NOT VALID,
    ADD CONSTRAINT evidence_of_a_foreign_slot CHECK (evidence IS NULL OR kind = 'foreign') NOT VALID;

ALTER TABLE submitter_nonce_cursor ADD COLUMN low_balance BOOLEAN NOT NULL DEFAULT FALSE;

-- A command that was refused is done as well: its result says why.
ALTER TABLE lane_command
    ADD COLUMN refused BOOLEAN NOT NULL DEFAULT FALSE,
    ADD CONSTRAINT refused_when_done CHECK (NOT refused OR done_at IS NOT NULL) NOT VALID;

-- Rows are never changed, and never deleted by the program. The subject is a submitter, a chain, or 'store'.
CREATE TABLE audit_log (
    id       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    subject  TEXT COLLATE "C" NOT NULL,
    actor    TEXT NOT NULL,
    action   TEXT NOT NULL,
    detail   TEXT NOT NULL
);
CREATE INDEX audit_log_subject ON audit_log (subject, id);
