-- A look at a lane's queue passes over nothing else that is open: a lane may have any number of transactions that are mined and not yet
-- final, and all of them stand before its queue.
--
-- What is open and holds no nonce is what is queued (nonce_where_one_is_held). An index that looked at the state instead would make every
-- step of an intent write all indexes; this one does so only where a nonce is bound, or comes back.
CREATE INDEX managed_tx_queue ON managed_tx (submitter, seq) WHERE nonce IS NULL AND ended_at IS NULL;
