-- The sweep has to find lanes that hold a nonce which no intent holds: a fill, or one that was lent and came back.
--
-- A column, and not an index on "open_nonce < next_nonce": such an index would look at both nonces, and every bind would have
-- to write all indexes of the row. This one changes only when a lane gets its first open nonce, or closes its last.
ALTER TABLE submitter_nonce_cursor
    ADD COLUMN has_open BOOLEAN NOT NULL GENERATED ALWAYS AS (open_nonce < next_nonce) STORED;
CREATE INDEX submitter_nonce_cursor_open ON submitter_nonce_cursor (submitter) WHERE has_open;
