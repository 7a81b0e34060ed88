-- The ground floor. Once it has landed this file never changes; what comes after is another migration.
--
-- CHECKs and unique indexes repeat what the code already guarantees, so that a mistake in the code cannot become a mistake
-- in the ledger. There are no foreign keys: each would take row locks outside the one lock order (lease, cursor, slot, tx,
-- attempt, event), and the fenced commit checks the same thing under the lease lock.
--
-- Text keys collate "C": the order in which rows are locked is then the order of bytes, the same as in the program.

-- epoch is the store's at registration: a lane that has no cursor yet may have had one that was lost.
CREATE TABLE submitter (
    submitter   TEXT COLLATE "C" PRIMARY KEY,
    alias       TEXT COLLATE "C" UNIQUE,
    epoch       BIGINT NOT NULL,
    created_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);

-- Who may write a lane. Rows are never deleted: a new one would begin again at token 1.
CREATE TABLE submitter_lease (
    submitter      TEXT COLLATE "C" PRIMARY KEY,
    owner_node     TEXT COLLATE "C" NOT NULL,
    fencing_token  BIGINT NOT NULL CHECK (fencing_token >= 1),
    expires_at     TIMESTAMPTZ NOT NULL,
    updated_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
CREATE INDEX submitter_lease_owner ON submitter_lease (owner_node);

-- Which database this is: a server that changed, or lost commits, begins a new epoch, and every lane has to take notice.
CREATE TABLE store_epoch (
    epoch              BIGINT PRIMARY KEY,
    system_identifier  TEXT,  -- not every server tells
    timeline           BIGINT,
    why                TEXT NOT NULL,
    noticed_at         TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    reconciled_at      TIMESTAMPTZ  -- an operator has looked for what was lost; the first epoch lost nothing
);

-- One row a process. The canary grows with every commit of that process; a server where it is smaller than the process
-- remembers has lost commits.
CREATE TABLE node (
    owner_node  TEXT COLLATE "C" PRIMARY KEY,
    canary      BIGINT NOT NULL DEFAULT 0,
    started_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    seen_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

CREATE TABLE submitter_nonce_cursor (
    submitter       TEXT COLLATE "C" PRIMARY KEY,
    next_nonce      BIGINT NOT NULL CHECK (next_nonce >= 0),
    chain_nonce     BIGINT NOT NULL CHECK (chain_nonce >= 0),
    final_nonce     BIGINT NOT NULL CHECK (final_nonce >= 0),
    open_nonce      BIGINT NOT NULL CHECK (open_nonce >= 0),
    state           TEXT NOT NULL CHECK (state IN ('IDLE', 'IN_FLIGHT', 'PROTECT')),
    protect_code    TEXT,
    protect_detail  TEXT,
    paused          BOOLEAN NOT NULL,
    version         BIGINT NOT NULL CHECK (version >= 1),
    event_seq       BIGINT NOT NULL CHECK (event_seq >= 0),
    epoch           BIGINT NOT NULL,
    fencing_token   BIGINT NOT NULL CHECK (fencing_token >= 1),
    updated_at      TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    CHECK (open_nonce <= next_nonce),
    CHECK ((state = 'PROTECT') = (protect_code IS NOT NULL)),
    CHECK ((state = 'PROTECT') = (protect_detail IS NOT NULL))
) WITH (fillfactor = 50);

-- The only arbiter of idempotency. Kept for ever; end_state stays when the intent itself is moved out.
CREATE TABLE request_key (
    submitter     TEXT COLLATE "C" NOT NULL,
    request_id    TEXT COLLATE "C" NOT NULL,
    payload_hash  BYTEA NOT NULL CHECK (length(payload_hash) = 32),
    tx_id         UUID NOT NULL,
    end_state     TEXT CHECK (end_state IN ('CONFIRMED', 'FAILED_FINAL', 'CANCELED')),
    PRIMARY KEY (submitter, request_id)
);

-- seq is the place in line, for ever. ended_at is set with the terminal state, and is what the partial indexes look at:
-- an index that looked at the state would make every step of an intent write all indexes.
CREATE SEQUENCE managed_tx_seq;
CREATE TABLE managed_tx (
    tx_id          UUID PRIMARY KEY,
    seq            BIGINT NOT NULL UNIQUE DEFAULT nextval('managed_tx_seq'),
    submitter      TEXT COLLATE "C" NOT NULL,
    request_id     TEXT COLLATE "C" NOT NULL,
    payload        JSONB NOT NULL,
    speed          TEXT NOT NULL CHECK (speed IN ('slow', 'standard', 'fast', 'instant')),
    valid_until    TIMESTAMPTZ,
    metadata       JSON,  -- not JSONB: the caller's own text, kept as it came
    state          TEXT NOT NULL,
    sub_state      TEXT,
    nonce          BIGINT CHECK (nonce >= 0),
    detail         JSONB NOT NULL,
    version        INTEGER NOT NULL CHECK (version >= 1),
    fencing_token  BIGINT NOT NULL DEFAULT 0,
    created_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    updated_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    ended_at       TIMESTAMPTZ,
    CONSTRAINT state_is_known
        CHECK (state IN ('QUEUED', 'ALLOCATED', 'TRACKING', 'STUCK', 'CONFIRMED', 'FAILED_FINAL', 'CANCELED')),
    CONSTRAINT sub_state_beside_bound_states CHECK (
        (state IN ('ALLOCATED', 'TRACKING', 'STUCK')) = (sub_state IS NOT NULL)
        AND (sub_state IS NULL OR sub_state IN ('PENDING', 'MINED', 'AWAITING_FUNDS', 'CANCELING', 'REPLACING'))),
    CONSTRAINT nonce_where_one_is_held CHECK (
        CASE
            WHEN state = 'QUEUED' THEN nonce IS NULL
            WHEN state IN ('ALLOCATED', 'TRACKING', 'STUCK', 'CONFIRMED') THEN nonce IS NOT NULL
            ELSE TRUE
        END),
    CONSTRAINT ended_when_terminal CHECK ((state IN ('CONFIRMED', 'FAILED_FINAL', 'CANCELED')) = (ended_at IS NOT NULL)),
    CONSTRAINT only_a_fresh_row_was_never_fenced CHECK (fencing_token > 0 OR state IN ('QUEUED', 'CANCELED'))
) WITH (fillfactor = 50);  -- room for a whole batch of updates beside the rows they replace
CREATE INDEX managed_tx_by_submitter ON managed_tx (submitter, seq);
CREATE INDEX managed_tx_open ON managed_tx (submitter, seq) WHERE ended_at IS NULL;
CREATE INDEX managed_tx_ended ON managed_tx (ended_at) WHERE ended_at IS NOT NULL;

-- A bound nonce belongs to one owner for ever; these rows are never deleted.
CREATE TABLE slot (
    submitter         TEXT COLLATE "C" NOT NULL,
    nonce             BIGINT NOT NULL CHECK (nonce >= 0),
    kind              TEXT NOT NULL CHECK (kind IN ('intent', 'fill', 'reservation', 'foreign')),
    tx_id             UUID,
    fencing_token     BIGINT NOT NULL CHECK (fencing_token >= 1),
    bound_at          TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    next_resubmit_at  TIMESTAMPTZ,
    PRIMARY KEY (submitter, nonce),
    CHECK ((kind = 'intent') = (tx_id IS NOT NULL))
);

CREATE TABLE tx_attempt (
    submitter      TEXT COLLATE "C" NOT NULL,
    nonce          BIGINT NOT NULL,
    ordinal        SMALLINT NOT NULL CHECK (ordinal >= 0),
    tx_id          UUID,
    kind           TEXT NOT NULL CHECK (kind IN ('original', 'bump', 'replace', 'cancel', 'fill')),
    hash           BYTEA NOT NULL CHECK (length(hash) = 32),
    raw            BYTEA NOT NULL,
    fees           JSONB NOT NULL,
    sends          INTEGER NOT NULL DEFAULT 0 CHECK (sends >= 0),
    last_sent_at   TIMESTAMPTZ,
    last_outcome   TEXT,
    last_text      TEXT,
    fencing_token  BIGINT NOT NULL CHECK (fencing_token >= 1),
    created_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (submitter, nonce, ordinal),
    UNIQUE (submitter, hash),
    CHECK ((sends = 0) = (last_outcome IS NULL))
);
CREATE INDEX tx_attempt_by_tx ON tx_attempt (tx_id) WHERE tx_id IS NOT NULL;

-- Nonces lent to callers who sign by themselves.
CREATE TABLE submitter_nonce_allocation (
    submitter      TEXT COLLATE "C" NOT NULL,
    nonce          BIGINT NOT NULL,
    status         TEXT NOT NULL CHECK (status IN ('RESERVED', 'USED', 'RECYCLABLE')),
    tx_id          UUID,
    lock_owner     TEXT,
    locked_until   TIMESTAMPTZ,
    fencing_token  BIGINT NOT NULL CHECK (fencing_token >= 1),
    PRIMARY KEY (submitter, nonce),
    CHECK ((status = 'RESERVED') = (lock_owner IS NOT NULL)),
    CHECK ((status = 'RESERVED') = (locked_until IS NOT NULL)),
    CHECK (CASE status WHEN 'RESERVED' THEN tx_id IS NOT NULL WHEN 'RECYCLABLE' THEN tx_id IS NULL ELSE TRUE END)
);
CREATE INDEX submitter_nonce_allocation_open ON submitter_nonce_allocation (submitter, nonce) WHERE status <> 'USED';

CREATE TABLE lane_command (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    submitter  TEXT COLLATE "C" NOT NULL,
    kind       TEXT NOT NULL,
    body       JSONB NOT NULL,
    issued_by  TEXT NOT NULL,
    issued_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    done_at    TIMESTAMPTZ,
    result     TEXT,
    CHECK ((done_at IS NULL) = (result IS NULL))
);
CREATE INDEX lane_command_open ON lane_command (submitter, id) WHERE done_at IS NULL;

-- History and outbox. A row carries the transaction that wrote it; readers stop before the oldest transaction that is still
-- under way, and go on in the order (xid, id), so one that commits late is not skipped.
CREATE SEQUENCE tx_event_id;
CREATE TABLE tx_event (
    xid        XID8 NOT NULL DEFAULT pg_current_xact_id(),
    id         BIGINT NOT NULL DEFAULT nextval('tx_event_id'),
    submitter  TEXT COLLATE "C" NOT NULL,
    tx_id      UUID,
    seq        BIGINT NOT NULL CHECK (seq >= 1),
    kind       TEXT NOT NULL,
    state      TEXT,
    nonce      BIGINT,
    detail     JSONB,
    text       TEXT,
    at         TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (xid, id),
    CHECK ((tx_id IS NULL) = (state IS NULL)),
    CHECK ((tx_id IS NULL) = (detail IS NULL)),
    CHECK ((tx_id IS NULL) = (text IS NOT NULL))
);
CREATE UNIQUE INDEX tx_event_of_tx ON tx_event (tx_id, seq) WHERE tx_id IS NOT NULL;
CREATE UNIQUE INDEX tx_event_of_lane ON tx_event (submitter, seq) WHERE tx_id IS NULL;

CREATE TABLE event_consumer (
    name          TEXT COLLATE "C" PRIMARY KEY,
    xid           XID8 NOT NULL,
    id            BIGINT NOT NULL,
    owner_node    TEXT COLLATE "C" NOT NULL,
    locked_until  TIMESTAMPTZ NOT NULL
);

CREATE TABLE chain_head (
    chain         TEXT COLLATE "C" PRIMARY KEY,
    number        BIGINT NOT NULL CHECK (number >= 0),
    hash          BYTEA NOT NULL CHECK (length(hash) = 32),
    parent_hash   BYTEA NOT NULL CHECK (length(parent_hash) = 32),
    final_number  BIGINT,
    final_hash    BYTEA,
    updated_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    CHECK ((final_number IS NULL) = (final_hash IS NULL))
);

-- Where retention moves things. The same columns, without the indexes that only open work needs.
-- Rows are moved whole, so a column that is added here is added there, at the end of both.
CREATE TABLE archived_tx (archived_at TIMESTAMPTZ NOT NULL, LIKE managed_tx INCLUDING DEFAULTS);
ALTER TABLE archived_tx ADD PRIMARY KEY (tx_id);
CREATE TABLE archived_attempt (LIKE tx_attempt INCLUDING DEFAULTS);
ALTER TABLE archived_attempt ADD PRIMARY KEY (submitter, nonce, ordinal);
CREATE INDEX archived_attempt_by_tx ON archived_attempt (tx_id);
CREATE TABLE archived_event (LIKE tx_event INCLUDING DEFAULTS);
ALTER TABLE archived_event ADD PRIMARY KEY (tx_id, seq);
