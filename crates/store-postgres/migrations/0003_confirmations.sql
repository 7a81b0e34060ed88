-- Confirmations: what consumers are told of them, and the part of the chain that a watcher has linked.
--
-- No CHECK looks at the rows that are there: all of them have NULL, and the tables stay locked while a large one is read.
ALTER TABLE tx_event
    ADD COLUMN notice JSONB,
    ADD CONSTRAINT notice_beside_an_intent CHECK (notice IS NULL OR tx_id IS NOT NULL) NOT VALID;
ALTER TABLE archived_event ADD COLUMN notice JSONB;

-- tail: what its first block stands on, and then its blocks, 32 bytes each. The newest is also in number and hash, which is
-- all that older releases read and write.
ALTER TABLE chain_head
    ADD COLUMN tail_first BIGINT CHECK (tail_first >= 0),
    ADD COLUMN tail BYTEA CHECK (length(tail) >= 64 AND length(tail) % 32 = 0),
    ADD COLUMN genesis BYTEA CHECK (length(genesis) = 32),
    ADD CONSTRAINT tail_is_whole CHECK ((tail IS NULL) = (tail_first IS NULL));
