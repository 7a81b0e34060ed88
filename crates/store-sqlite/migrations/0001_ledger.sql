-- The ledger. Table and column names are those of the PostgreSQL store, so that operators know both.
-- Times are microseconds since 1970; ids of transactions are UUIDs as text; hashes and signed bytes are blobs.
-- CHECKs repeat what the domain crate already makes sure of: a bug there must not become a row here.

-- One row. `writes` counts the write transactions and is what the sidecar file remembers; `tx_seq` is the place in line
-- that was given last. Neither ever goes back.
CREATE TABLE canary (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    database_id BLOB    NOT NULL CHECK (length(database_id) = 16),
    writes      INTEGER NOT NULL CHECK (writes >= 0),
    tx_seq      INTEGER NOT NULL CHECK (tx_seq >= 0)
) STRICT;
INSERT INTO canary VALUES (1, randomblob(16), 0, 0);

-- One row for every time that the database was found to have lost commits. The newest is the epoch of the store; a lane
-- whose cursor carries an older one has not yet taken notice.
CREATE TABLE store_epoch (
    epoch      INTEGER PRIMARY KEY CHECK (epoch >= 1),
    noticed_at INTEGER NOT NULL,
    why        TEXT    NOT NULL,
    reconciled_at INTEGER
) STRICT;

-- `epoch` is the store's at registration: a lane without a cursor whose submitter is older may have lost it.
CREATE TABLE submitter (
    submitter  TEXT    PRIMARY KEY,
    alias      TEXT    UNIQUE,
    epoch      INTEGER NOT NULL CHECK (epoch >= 0),
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Rows are never deleted: a new one would restart at token 1.
CREATE TABLE submitter_lease (
    submitter     TEXT    PRIMARY KEY,
    owner_node    TEXT    NOT NULL,
    fencing_token INTEGER NOT NULL CHECK (fencing_token >= 1),
    expires_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX submitter_lease_owner ON submitter_lease (owner_node, submitter);

CREATE TABLE submitter_nonce_cursor (
    submitter      TEXT    PRIMARY KEY,
    next_nonce     INTEGER NOT NULL CHECK (next_nonce >= 0),
    chain_nonce    INTEGER NOT NULL CHECK (chain_nonce >= 0),
    final_nonce    INTEGER NOT NULL CHECK (final_nonce >= 0),
    -- Everything below is closed; a lane is loaded from here on.
    open_nonce     INTEGER NOT NULL CHECK (open_nonce BETWEEN 0 AND next_nonce),
    state          TEXT    NOT NULL CHECK (state IN ('IDLE', 'IN_FLIGHT', 'PROTECT')),
    protect_code   TEXT,
    protect_detail TEXT,
    paused         INTEGER NOT NULL CHECK (paused IN (0, 1)),
    version        INTEGER NOT NULL CHECK (version >= 1),
    event_seq      INTEGER NOT NULL CHECK (event_seq >= 0),
    epoch          INTEGER NOT NULL CHECK (epoch >= 0),
    fencing_token  INTEGER NOT NULL DEFAULT 0 CHECK (fencing_token >= 0),
    updated_at     INTEGER NOT NULL,
    CHECK ((state = 'PROTECT') = (protect_code IS NOT NULL)),
    CHECK ((state = 'PROTECT') = (protect_detail IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- The only arbiter of idempotency. Kept for ever; `end_state` is set when retention has moved the intent out.
CREATE TABLE request_key (
    submitter    TEXT NOT NULL REFERENCES submitter,
    request_id   TEXT NOT NULL,
    payload_hash BLOB NOT NULL CHECK (length(payload_hash) = 32),
    tx_id        TEXT NOT NULL UNIQUE CHECK (length(tx_id) = 36),
    end_state    TEXT CHECK (end_state IN ('CONFIRMED', 'FAILED_FINAL', 'CANCELED')),
    PRIMARY KEY (submitter, request_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE managed_tx (
    tx_id         TEXT    PRIMARY KEY CHECK (length(tx_id) = 36),
    seq           INTEGER NOT NULL UNIQUE CHECK (seq >= 1),
    submitter     TEXT    NOT NULL,
    request_id    TEXT    NOT NULL,
    payload       TEXT    NOT NULL CHECK (json_valid(payload)),
    speed         TEXT    NOT NULL CHECK (speed IN ('slow', 'standard', 'fast', 'instant')),
    valid_until   INTEGER,
    metadata      TEXT    CHECK (metadata IS NULL OR json_valid(metadata)),
    state         TEXT    NOT NULL CHECK (state IN
                      ('QUEUED', 'ALLOCATED', 'TRACKING', 'STUCK', 'CONFIRMED', 'FAILED_FINAL', 'CANCELED')),
    sub_state     TEXT    CHECK (sub_state IN ('PENDING', 'MINED', 'AWAITING_FUNDS', 'CANCELING', 'REPLACING')),
    nonce         INTEGER CHECK (nonce >= 0),
    detail        TEXT    NOT NULL CHECK (json_valid(detail)),
    version       INTEGER NOT NULL CHECK (version >= 1),
    fencing_token INTEGER NOT NULL DEFAULT 0 CHECK (fencing_token >= 0),
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    FOREIGN KEY (submitter, request_id) REFERENCES request_key (submitter, request_id),
    UNIQUE (submitter, request_id),
    -- Bound states have a sub-state, and only they.
    CHECK ((state IN ('ALLOCATED', 'TRACKING', 'STUCK')) = (sub_state IS NOT NULL)),
    CHECK (CASE state
               WHEN 'QUEUED' THEN nonce IS NULL
               WHEN 'FAILED_FINAL' THEN TRUE
               WHEN 'CANCELED' THEN TRUE
               ELSE nonce IS NOT NULL
           END)
) STRICT;
-- What is in line, what is in flight, what may be moved out. Together the first two are all open work, and neither
-- makes a lane with a long queue slower to load than one with a short one.
CREATE INDEX managed_tx_queue ON managed_tx (submitter, seq) WHERE state = 'QUEUED';
CREATE INDEX managed_tx_bound ON managed_tx (submitter, nonce) WHERE state IN ('ALLOCATED', 'TRACKING', 'STUCK');
CREATE INDEX managed_tx_ended ON managed_tx (updated_at) WHERE state IN ('CONFIRMED', 'FAILED_FINAL', 'CANCELED');
CREATE INDEX managed_tx_lane ON managed_tx (submitter, seq);

-- A bound nonce, for ever: never updated but for the claim of its next resend, never deleted.
CREATE TABLE slot (
    submitter        TEXT    NOT NULL,
    nonce            INTEGER NOT NULL CHECK (nonce >= 0),
    kind             TEXT    NOT NULL CHECK (kind IN ('intent', 'fill', 'reservation', 'foreign')),
    tx_id            TEXT,
    fencing_token    INTEGER NOT NULL DEFAULT 0 CHECK (fencing_token >= 0),
    bound_at         INTEGER NOT NULL,
    next_resubmit_at INTEGER,
    PRIMARY KEY (submitter, nonce),
    CHECK ((kind = 'intent') = (tx_id IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE tx_attempt (
    submitter     TEXT    NOT NULL,
    nonce         INTEGER NOT NULL,
    ordinal       INTEGER NOT NULL CHECK (ordinal BETWEEN 0 AND 65535),
    tx_id         TEXT,
    kind          TEXT    NOT NULL CHECK (kind IN ('original', 'bump', 'replace', 'cancel', 'fill')),
    hash          BLOB    NOT NULL CHECK (length(hash) = 32),
    raw           BLOB    NOT NULL,
    fees          TEXT    NOT NULL CHECK (json_valid(fees)),
    sends         INTEGER NOT NULL DEFAULT 0 CHECK (sends >= 0),
    last_sent_at  INTEGER,
    last_outcome  TEXT,
    last_text     TEXT,
    fencing_token INTEGER NOT NULL DEFAULT 0 CHECK (fencing_token >= 0),
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (submitter, nonce, ordinal),
    FOREIGN KEY (submitter, nonce) REFERENCES slot (submitter, nonce),
    UNIQUE (submitter, hash),
    CHECK ((last_outcome IS NULL) = (last_text IS NULL)),
    CHECK ((last_outcome IS NULL) = (last_sent_at IS NULL)),
    CHECK ((last_outcome IS NULL) = (sends = 0))
) STRICT;
CREATE INDEX tx_attempt_tx ON tx_attempt (tx_id) WHERE tx_id IS NOT NULL;

CREATE TABLE submitter_nonce_allocation (
    submitter     TEXT    NOT NULL,
    nonce         INTEGER NOT NULL CHECK (nonce >= 0),
    status        TEXT    NOT NULL CHECK (status IN ('RESERVED', 'USED', 'RECYCLABLE')),
    tx_id         TEXT,
    lock_owner    TEXT,
    locked_until  INTEGER,
    fencing_token INTEGER NOT NULL DEFAULT 0 CHECK (fencing_token >= 0),
    PRIMARY KEY (submitter, nonce),
    FOREIGN KEY (submitter, nonce) REFERENCES slot (submitter, nonce),
    CHECK ((status = 'RESERVED') = (lock_owner IS NOT NULL)),
    CHECK ((status = 'RESERVED') = (locked_until IS NOT NULL)),
    -- A nonce that a filler of ours took is USED, and no intent's.
    CHECK (CASE status WHEN 'RESERVED' THEN tx_id IS NOT NULL WHEN 'RECYCLABLE' THEN tx_id IS NULL ELSE TRUE END)
) STRICT, WITHOUT ROWID;
CREATE INDEX submitter_nonce_allocation_open ON submitter_nonce_allocation (submitter, nonce) WHERE status <> 'USED';

CREATE TABLE lane_command (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    submitter TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    body      TEXT    NOT NULL CHECK (json_valid(body)),
    issued_by TEXT    NOT NULL,
    issued_at INTEGER NOT NULL,
    done_at   INTEGER,
    result    TEXT,
    CHECK ((done_at IS NULL) = (result IS NULL))
) STRICT;
CREATE INDEX lane_command_open ON lane_command (submitter, id) WHERE done_at IS NULL;

-- Outbox and history. An intent's event carries the whole state that it led to; a lane's event carries a text.
CREATE TABLE tx_event (
    commit_no INTEGER NOT NULL CHECK (commit_no >= 1),
    idx       INTEGER NOT NULL CHECK (idx >= 0),
    submitter TEXT    NOT NULL,
    tx_id     TEXT,
    seq       INTEGER NOT NULL CHECK (seq >= 1),
    kind      TEXT    NOT NULL,
    state     TEXT,
    sub_state TEXT,
    nonce     INTEGER,
    detail    TEXT    CHECK (detail IS NULL OR json_valid(detail)),
    text      TEXT,
    at        INTEGER NOT NULL,
    PRIMARY KEY (commit_no, idx),
    CHECK ((tx_id IS NOT NULL) = (state IS NOT NULL)),
    CHECK ((tx_id IS NOT NULL) = (detail IS NOT NULL)),
    CHECK ((tx_id IS NULL) = (text IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX tx_event_tx ON tx_event (tx_id, seq) WHERE tx_id IS NOT NULL;
CREATE UNIQUE INDEX tx_event_lane ON tx_event (submitter, seq) WHERE tx_id IS NULL;

CREATE TABLE event_consumer (
    name         TEXT    PRIMARY KEY,
    commit_no    INTEGER NOT NULL CHECK (commit_no >= 0),
    idx          INTEGER NOT NULL CHECK (idx >= 0),
    owner_node   TEXT    NOT NULL,
    locked_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE chain_head (
    chain         TEXT    PRIMARY KEY,
    latest_number INTEGER NOT NULL CHECK (latest_number >= 0),
    latest_hash   BLOB    NOT NULL CHECK (length(latest_hash) = 32),
    parent_hash   BLOB    NOT NULL CHECK (length(parent_hash) = 32),
    final_number  INTEGER CHECK (final_number >= 0),
    final_hash    BLOB    CHECK (length(final_hash) = 32),
    updated_at    INTEGER NOT NULL,
    CHECK ((final_number IS NULL) = (final_hash IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE node (
    owner_node TEXT    PRIMARY KEY,
    seen_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What retention has moved out: the intent, its attempts and its events as one document.
CREATE TABLE archived_tx (
    tx_id       TEXT    PRIMARY KEY,
    submitter   TEXT    NOT NULL,
    request_id  TEXT    NOT NULL,
    doc         TEXT    NOT NULL CHECK (json_valid(doc)),
    archived_at INTEGER NOT NULL
) STRICT;
