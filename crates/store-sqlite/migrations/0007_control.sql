-- What it takes to raise, replace and judge what is on its way.

-- What is wanted instead of the payload, which the request id stands for all the same.
ALTER TABLE managed_tx ADD COLUMN replacement TEXT CHECK (replacement IS NULL OR json_valid(replacement));

-- The newest sends, oldest first, with what each endpoint said.
ALTER TABLE tx_attempt ADD COLUMN history TEXT NOT NULL DEFAULT '[]'
    CHECK (json_valid(history) AND json_type(history) = 'array');

-- How often it was sent again, or raised, and what nodes' pools showed of it before that.
ALTER TABLE slot ADD COLUMN tries INTEGER NOT NULL DEFAULT 0 CHECK (tries BETWEEN 0 AND 65535);
ALTER TABLE slot ADD COLUMN signal TEXT CHECK (signal IN ('in_mempool', 'likely_dropped', 'likely_replaced', 'unknown'));
