-- An array is listed as one row with its progress: the index alone tells how many of its elements
-- are in which state, and has them in order as the one before it had.
DROP INDEX jobs_by_array;
CREATE INDEX jobs_by_array ON jobs (array_id, number, submit_seq, state, ended_at)
    WHERE array_id IS NOT NULL;
