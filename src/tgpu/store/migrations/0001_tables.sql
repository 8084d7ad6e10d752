-- The journal is what happened, one row an event; the other tables are what is true now.
-- Both are written in the same transaction, so replaying the journal gives the tables.

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE journal (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    job_id TEXT,            -- NULL where the event is about several jobs or none
    payload TEXT NOT NULL   -- the event as JSON; a bulk submission is one row with all its jobs
) STRICT;

-- Partial: rows of bulk submissions stay out of it and cost nothing.
CREATE INDEX journal_by_job ON journal (job_id) WHERE job_id IS NOT NULL;

CREATE TABLE jobs (
    number INTEGER PRIMARY KEY,     -- the order in which jobs came in, from 1
    job_id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    user TEXT NOT NULL,
    array_id TEXT,
    submitted_at INTEGER NOT NULL,
    ended_at INTEGER,               -- NULL as long as the job is not over
    submit_seq INTEGER NOT NULL,    -- the row of the journal that holds its submission
    facts TEXT NOT NULL,            -- what decisions look at, without the columns above
    detail TEXT NOT NULL,           -- what they do not, without the columns above
    progress TEXT NOT NULL          -- what has become of it
) STRICT;

-- Every index costs ingest rate. This one serves four readers: the jobs that are not over (at
-- start), how many are over by state (it covers the count), and lists by state, newest first.
CREATE INDEX jobs_by_state ON jobs (state);
CREATE INDEX jobs_by_array ON jobs (array_id) WHERE array_id IS NOT NULL;

CREATE TABLE environments (
    env_id TEXT PRIMARY KEY,
    data TEXT NOT NULL
) STRICT;

CREATE TABLE tenants (
    tenant_id TEXT PRIMARY KEY,
    data TEXT NOT NULL
) STRICT;

CREATE TABLE nodes (
    node_id TEXT PRIMARY KEY,
    data TEXT NOT NULL
) STRICT;
