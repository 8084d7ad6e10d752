-- What many tenants on one service need: their queues, what they used, small documents of the
-- service (keys, settings made at run time, …) by kind and name, and who did what.

CREATE TABLE queues (
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (tenant_id, name)
) STRICT;

-- One row a day, so that history stays small however many jobs there were.
CREATE TABLE usage (
    day INTEGER NOT NULL,           -- days since the epoch, UTC
    tenant_id TEXT NOT NULL,
    queue TEXT NOT NULL,
    gpu_millis_ms INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    PRIMARY KEY (day, tenant_id, queue)
) STRICT;

CREATE TABLE documents (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT;

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    tenant_id TEXT,                 -- NULL where it is about no tenant
    origin TEXT NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;

-- Newest first within one tenant: SQLite walks it backwards.
CREATE INDEX audit_by_tenant ON audit (tenant_id, seq) WHERE tenant_id IS NOT NULL;
