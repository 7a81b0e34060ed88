-- Every index of a row is written with it, and again when the row moves. These two are of no use any more. (Nodes from before this do use
-- them: beside this schema they are right, and slow on large tables. There was no release before it.)
--
-- An open intent is in line, and found by managed_tx_queue; or it holds a nonce, and its lane's cursor has an open one.
DROP INDEX managed_tx_open;

-- The bytes that a hash stands for are signed for one nonce, so an attempt is found among those of its nonce. This index was the only one
-- that grew at random places.
ALTER TABLE tx_attempt DROP CONSTRAINT tx_attempt_submitter_hash_key;
