-- The sweep has to find lanes that hold a nonce which no intent holds: a fill, or one that was lent and came back.
CREATE INDEX submitter_nonce_cursor_open ON submitter_nonce_cursor (submitter) WHERE open_nonce < next_nonce;
