-- The journal is what happened, one row an event; the other tables are what is true now.
-- Both are written in the same transaction, so replaying the journal gives the tables.
-- Texts compare byte by byte: ids have no language, and such indexes are faster.

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE journal (
    seq BIGINT PRIMARY KEY,
    at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    job_id TEXT COLLATE "C",    -- NULL where the event is about several jobs or none
    payload TEXT NOT NULL       -- the event as JSON; a bulk submission is one row with all its jobs
);

-- Partial: rows of bulk submissions stay out of it and cost nothing.
CREATE INDEX journal_by_job ON journal (job_id, seq) WHERE job_id IS NOT NULL;

CREATE TABLE jobs (
    number BIGINT PRIMARY KEY,      -- the order in which jobs came in, from 1
    job_id TEXT COLLATE "C" NOT NULL UNIQUE,
    state TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    "user" TEXT COLLATE "C" NOT NULL,
    array_id TEXT COLLATE "C",
    submitted_at BIGINT NOT NULL,
    ended_at BIGINT,                -- NULL as long as the job is not over
    submit_seq BIGINT NOT NULL,     -- the row of the journal that holds its submission
    facts TEXT NOT NULL,            -- what decisions look at, without the columns above
    detail TEXT NOT NULL,           -- what they do not, without the columns above
    progress TEXT NOT NULL          -- what has become of it
);

-- Every index costs ingest rate. This one serves four readers: the jobs that are not over (at
-- start), how many are over by state (it covers the count), and lists by state, newest first.
CREATE INDEX jobs_by_state ON jobs (state, number);
CREATE INDEX jobs_by_array ON jobs (array_id) WHERE array_id IS NOT NULL;

CREATE TABLE environments (
    env_id TEXT COLLATE "C" PRIMARY KEY,
    data TEXT NOT NULL
);

CREATE TABLE tenants (
    tenant_id TEXT COLLATE "C" PRIMARY KEY,
    data TEXT NOT NULL
);

CREATE TABLE nodes (
    node_id TEXT COLLATE "C" PRIMARY KEY,
    data TEXT NOT NULL
);

CREATE TABLE queues (
    tenant_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (tenant_id, name)
);

-- One row a day, so that history stays small however many jobs there were.
CREATE TABLE usage (
    day BIGINT NOT NULL,            -- days since the epoch, UTC
    tenant_id TEXT COLLATE "C" NOT NULL,
    queue TEXT COLLATE "C" NOT NULL,
    gpu_millis_ms BIGINT NOT NULL,
    completed BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    cancelled BIGINT NOT NULL,
    PRIMARY KEY (day, tenant_id, queue)
);

CREATE TABLE documents (
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE TABLE audit (
    seq BIGINT PRIMARY KEY,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    tenant_id TEXT COLLATE "C",     -- NULL where it is about no tenant
    origin TEXT NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT NOT NULL
);

CREATE INDEX audit_by_tenant ON audit (tenant_id, seq) WHERE tenant_id IS NOT NULL;
