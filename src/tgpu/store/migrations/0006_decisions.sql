-- Which events were decided together, by whom (a cycle, a command, the service itself), and which call
-- that was: rows of before have neither.
ALTER TABLE journal ADD COLUMN decision INTEGER;
ALTER TABLE journal ADD COLUMN decided_by TEXT;
ALTER TABLE audit ADD COLUMN decision INTEGER;
ALTER TABLE audit ADD COLUMN request_id TEXT;
