-- A row that changes where no index looks, and whose page has room for its new version, writes no index. Every attempt changes once it was
-- sent, and an intent with each step between its nonce and its end; pages that are filled to the last byte left no room for it.
ALTER TABLE tx_attempt SET (fillfactor = 50);
ALTER TABLE managed_tx SET (fillfactor = 60);
