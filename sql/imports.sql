-- Queries for rejected records. Statements on a resource's own tables are composed from its declaration, in
-- `bulk_pipelines/imports`.

-- name: rejected_rows
-- A page of a job's rejects in the order of the file. It ends after :limit rejects, or earlier, once the records on it
-- hold :bytes bytes.
-- Its speed does not depend on how deep the page is.
SELECT line, raw, raw_size, reasons
FROM (
    SELECT *, coalesce(sum(octet_length(raw)) OVER (ORDER BY line ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW), 0) AS before
    FROM (
        SELECT line, raw, raw_size, reasons
        FROM rejected_row
        WHERE job_id = :job_id AND line > :after_line
        ORDER BY line
        LIMIT :limit
    ) AS wanted
) AS counted
WHERE before < :bytes
ORDER BY line;

-- name: rejected_row_behind
-- Returns a row if there is a reject behind a line. The size of a page does not tell that, because large rejects end a
-- page early.
SELECT line FROM rejected_row WHERE job_id = :job_id AND line > :after_line LIMIT 1;

-- name: count_rejected_rows
-- How many records of a job were rejected.
SELECT count(*) FROM rejected_row WHERE job_id = :job_id;

-- name: lacking_rejects
-- How many rejects of an import that is over are not kept any more, because retention has removed them.
SELECT rejected - (SELECT count(*) FROM rejected_row WHERE job_id = :job_id)
FROM import_count JOIN job USING (job_id)
WHERE job_id = :job_id AND finished_at IS NOT NULL;

-- name: unread_rejected_rows
-- Lines of rejects whose records were not at hand when they were rejected, and are still to be read from the file
-- again.
SELECT line
FROM rejected_row
WHERE job_id = :job_id AND raw IS NULL AND line >= :first AND line < :border
ORDER BY line;

-- name: fill_rejected_rows!
-- Writes the records of rejects that were read again. They are given as an object that maps each line to its record in
-- base64. The query uses no join, for which the planner would have to know the size of a table that is just being
-- filled.
UPDATE rejected_row
SET raw = decode(:found::jsonb ->> line::text, 'base64')
WHERE job_id = :job_id AND raw IS NULL AND line = ANY(ARRAY(SELECT jsonb_object_keys(:found::jsonb)::bigint));

-- name: write_late_reasons!
-- Writes the final reasons of rejects, given as an object that maps each line to its reasons, in place of the reasons
-- that were noted while the file was not known as a whole.
UPDATE rejected_row
SET reasons = :found::jsonb -> line::text
WHERE job_id = :job_id AND line = ANY(ARRAY(SELECT jsonb_object_keys(:found::jsonb)::bigint))
    AND reasons <> :found::jsonb -> line::text;

-- name: reject_unread_rows!
-- Adds rejects whose records are still to be read from the file again.
INSERT INTO rejected_row (job_id, line, reasons)
SELECT :job_id, f.key::bigint, f.value
FROM jsonb_each(:found::jsonb) AS f;

-- name: jobs_with_old_rejects
-- Jobs whose rejects retention may remove: jobs that are gone, or that have been over for long enough and of which
-- nothing can be tried again. The query finds each job with rejects by one look into the index, however many rejects
-- the job has.
WITH RECURSIVE rejecting AS (
    (SELECT job_id FROM rejected_row ORDER BY job_id LIMIT 1)
    UNION ALL
    SELECT (SELECT job_id FROM rejected_row WHERE job_id > rejecting.job_id ORDER BY job_id LIMIT 1)
    FROM rejecting WHERE rejecting.job_id IS NOT NULL
)
SELECT rejecting.job_id
FROM rejecting LEFT JOIN job USING (job_id)
WHERE rejecting.job_id IS NOT NULL
    AND (job.job_id IS NULL OR job.finished_at < now() - make_interval(days => :days) AND (
        job.items_pruned_at IS NOT NULL
        OR job.dlq_items = 0 AND (job.result IS NOT NULL OR job.planned_at IS NULL)
    ))
ORDER BY 1;

-- name: jobs_with_old_landed_files
-- Which of these imports no longer need their landed files: they have been over for long enough, nothing of them can be
-- tried again, and nobody is about to run their rejects again. A job that this database does not know is left out,
-- because its files may be another installation's.
SELECT job_key FROM job
WHERE job_key = ANY (:job_keys::text[]) AND finished_at < now() - make_interval(days => :days)
    AND (items_pruned_at IS NOT NULL OR dlq_items = 0 AND (result IS NOT NULL OR planned_at IS NULL))
    AND NOT EXISTS (
        SELECT FROM job AS again WHERE again.finished_at IS NULL AND again.params ->> 'replay_of' = job.job_key
    );

-- name: remove_rejected_rows!
-- Removes the first rejects of a job, at most :limit of them, for retention.
DELETE FROM rejected_row
WHERE job_id = :job_id AND line IN (
    SELECT line FROM rejected_row WHERE job_id = :job_id ORDER BY line LIMIT :limit
);

-- name: table_columns
-- The columns of a table. For each: its type as people write it; the name of the type, or of the type at the bottom if
-- it is a domain; whether it is generated; and whether a row must give a value for it, because nothing else does.
WITH RECURSIVE found AS (
    SELECT a.*, has_trigger
    FROM pg_attribute AS a,
        LATERAL (
            SELECT EXISTS (
                SELECT FROM pg_trigger
                WHERE tgrelid = a.attrelid AND NOT tgisinternal AND tgtype & 2 = 2 AND tgtype & 4 = 4
            ) AS has_trigger
        ) AS triggers
    WHERE a.attrelid = to_regclass(:table) AND a.attnum > 0 AND NOT a.attisdropped
), base AS (
    SELECT attnum, t.* FROM found JOIN pg_type AS t ON t.oid = atttypid
    UNION ALL
    SELECT attnum, t.* FROM base JOIN pg_type AS t ON t.oid = base.typbasetype WHERE base.typtype = 'd'
)
SELECT attname, format_type(atttypid, atttypmod), base.typname, attgenerated <> '' OR attidentity = 'a',
    attnotnull AND NOT atthasdef AND attidentity = '' AND NOT has_trigger
FROM found JOIN base USING (attnum)
WHERE base.typtype <> 'd'
ORDER BY attnum;

-- name: says_origin
-- Whether this is a table whose rows say which import they come from.
SELECT relkind IN ('r', 'p') AND (
    SELECT count(*) = 3 FROM pg_attribute
    WHERE attrelid = c.oid AND NOT attisdropped AND attname IN ('import_job', 'import_line', 'import_revised')
)
FROM pg_class AS c WHERE c.oid = to_regclass(:table);

-- name: table_rights
-- Which of these rights this role lacks: it has them neither on the table as a whole nor on any of its columns.
SELECT wanted FROM unnest(:rights::text[]) AS wanted
WHERE NOT has_any_column_privilege(to_regclass(:table), wanted);

-- name: columns_without_right
-- The columns, of these, that this role may not write in this way.
SELECT name FROM unnest(:columns::text[]) AS name
WHERE NOT has_column_privilege(to_regclass(:table), name, :right);

-- name: staged_jobs
-- Jobs that can never go on and still have tables of their own in which records waited.
SELECT staged.job_id, job.job_key
FROM (
    SELECT substring(relname FROM '^import_aside_(\d+)$')::bigint AS job_id FROM pg_class
    WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND relname ~ '^import_aside_\d{1,18}$'
) AS staged LEFT JOIN job USING (job_id)
WHERE job.job_id IS NULL OR (
    job.finished_at IS NOT NULL AND job.running_items = 0
    AND (job.result IS NOT NULL OR job.planned_at IS NULL)
    AND (job.status = 'CANCELLED' OR job.dlq_items = 0 OR job.items_pruned_at IS NOT NULL)
);

-- name: target_now
-- The table of an import as it is now: whether it is another one than was noted with the table in which the records of
-- the import wait, and whether any of these columns is missing or of another type.
SELECT coalesce(noted.oids[2] = aside.oid::text AND noted.oids[1] <> target.oid::text, false),
    EXISTS (
        SELECT FROM unnest(:names::text[], :types::text[]) AS given (name, type) LEFT JOIN pg_attribute AS a
            ON a.attrelid = target.oid AND a.attname = given.name AND NOT a.attisdropped
        WHERE format_type(a.atttypid, a.atttypmod) IS DISTINCT FROM given.type
    )
FROM pg_class AS aside,
    LATERAL (SELECT string_to_array(obj_description(aside.oid, 'pg_class'), ' ') AS oids) AS noted,
    LATERAL (SELECT :table::regclass::oid AS oid) AS target
WHERE aside.oid = to_regclass(:aside);

-- name: rewriting_rules
-- The rules of a table that would make something else of an INSERT, or, in an upsert, of any write.
SELECT rulename FROM pg_rewrite
WHERE ev_class = :table::regclass AND ev_enabled <> 'D' AND ev_type = ANY (:events::"char"[])
ORDER BY rulename;

-- name: may_object
-- Whether anything besides types, NOT NULL, CHECK and the constraints named here decides which rows the table takes. If
-- so, only the table itself can tell whether it takes a row. An index counts too, because it can refuse values that are
-- too long, or that its expression fails on.
SELECT relkind <> 'r' OR row_security_active(oid)
    OR EXISTS (
        SELECT FROM pg_trigger
        WHERE tgrelid = target.oid AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 4 = 4
    )
    OR EXISTS (SELECT FROM pg_rewrite WHERE ev_class = target.oid)
    OR EXISTS (
        SELECT FROM pg_constraint WHERE conrelid = target.oid AND contype = 'f' AND conname <> ALL (:declared::text[])
    )
    OR EXISTS (
        SELECT FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
        WHERE i.indrelid = target.oid AND c.relname <> ALL (:declared::text[])
            AND (
                i.indisunique OR i.indisexclusion OR i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
                OR EXISTS (
                    SELECT FROM unnest(i.indkey::smallint[]) AS key JOIN pg_attribute AS a
                        ON a.attrelid = target.oid AND a.attnum = key AND a.attlen < 0
                )
            )
    )
FROM pg_class AS target
WHERE oid = to_regclass(:table);

-- name: checks
-- The CHECK constraints of a table in the order in which PostgreSQL looks at them: the name and the condition of each,
-- and its columns. None are told of a table whose rows a trigger may change before they are checked, or of one that
-- hands its rows to partitions, which have constraints of their own.
SELECT o.conname, pg_get_expr(o.conbin, o.conrelid), named.columns
FROM pg_class AS c JOIN pg_constraint AS o ON o.conrelid = c.oid,
    LATERAL (
        SELECT array_agg(a.attname)::text[] AS columns FROM pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attnum = ANY (o.conkey)
    ) AS named
WHERE c.oid = to_regclass(:table) AND c.relkind = 'r' AND o.contype = 'c'
    AND cardinality(named.columns) = cardinality(o.conkey)
    AND coalesce((to_jsonb(o) ->> 'conenforced')::boolean, true)
    AND NOT EXISTS (
        SELECT FROM pg_trigger AS t WHERE t.tgrelid = c.oid AND t.tgenabled <> 'D' AND t.tgtype & 7 = 7
    )
ORDER BY o.conname COLLATE "C";
