-- What it takes to raise, replace and judge what is on its way.
--
-- No CHECK looks at the rows that are there: all of them have the default, and the tables stay locked while a large one is read.

-- What is wanted instead of the payload, which the request id stands for all the same.
ALTER TABLE managed_tx ADD COLUMN replacement JSONB;
ALTER TABLE archived_tx ADD COLUMN replacement JSONB;

-- The newest sends, oldest first, with what each endpoint said.
ALTER TABLE tx_attempt
    ADD COLUMN history JSONB NOT NULL DEFAULT '[]',
    ADD CONSTRAINT history_is_a_list CHECK (jsonb_typeof(history) = 'array') NOT VALID;
ALTER TABLE archived_attempt ADD COLUMN history JSONB NOT NULL DEFAULT '[]';

-- How often it was sent again, or raised, and what nodes' pools showed of it before that.
ALTER TABLE slot
    ADD COLUMN tries INTEGER NOT NULL DEFAULT 0,
    ADD COLUMN signal TEXT,
    ADD CONSTRAINT tries_are_counted CHECK (tries BETWEEN 0 AND 65535) NOT VALID,
    ADD CONSTRAINT signal_is_known
        CHECK (signal IN ('in_mempool', 'likely_dropped', 'likely_replaced', 'unknown')) NOT VALID;
