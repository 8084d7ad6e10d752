-- What makes a job another than one of the same id in another database, or in this one before a
-- backup was put in its place. Empty for jobs that were submitted before there was this column.

ALTER TABLE jobs ADD COLUMN nonce TEXT NOT NULL DEFAULT '';
