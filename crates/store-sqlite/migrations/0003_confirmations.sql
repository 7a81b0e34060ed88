-- Confirmations: what consumers are told of them, and the part of the chain that a watcher has linked.
ALTER TABLE tx_event ADD COLUMN
    notice TEXT CHECK (notice IS NULL OR (tx_id IS NOT NULL AND json_valid(notice)));

-- tail: what its first block stands on, and then its blocks, 32 bytes each.
ALTER TABLE chain_head ADD COLUMN tail_first INTEGER CHECK (tail_first >= 0);
ALTER TABLE chain_head ADD COLUMN
    tail BLOB CHECK ((tail IS NULL) = (tail_first IS NULL) AND (tail IS NULL OR (length(tail) >= 64 AND length(tail) % 32 = 0)));
ALTER TABLE chain_head ADD COLUMN genesis BLOB CHECK (length(genesis) = 32);
