-- Which jobs were run again, and as what. Jobs that run nothing again stay out of it: looking for the
-- name in their text costs less than taking the text apart.
CREATE INDEX jobs_by_rerun ON jobs (json_extract(detail, '$.rerun_of'))
    WHERE instr(detail, '"rerun_of":') > 0;
