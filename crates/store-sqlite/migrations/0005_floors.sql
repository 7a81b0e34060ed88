-- The block that was final before anything could be sent for a slot is known by its hash too: after a reorg below what was final, a block
-- of its number may be another one, and says nothing. Rows from before have a number only, and so nothing that can be checked.
ALTER TABLE slot ADD COLUMN above_hash BLOB
    CHECK (above_hash IS NULL OR (above_block IS NOT NULL AND length(above_hash) = 32));
