-- Which jobs were run again, and as what. An id has neither quotes nor backslashes in it, and within
-- a value the quotes before and behind the name would have backslashes before them.
CREATE INDEX jobs_by_rerun ON jobs (substring(detail FROM '"rerun_of":"([^"]*)"'))
    WHERE position('"rerun_of":' IN detail) > 0;
