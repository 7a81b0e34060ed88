-- The block that was final before anything could be sent for a slot is known by its hash too: after a reorg below what was final, a block
-- of its number may be another one, and says nothing. Rows from before have a number only, and so nothing that can be checked.
--
-- No CHECK looks at the slots that are there: all of them have NULL.
ALTER TABLE slot
    ADD COLUMN above_hash BYTEA,
    ADD CONSTRAINT above_a_block_with_a_hash
        CHECK (above_hash IS NULL OR (above_block IS NOT NULL AND octet_length(above_hash) = 32)) NOT VALID;
