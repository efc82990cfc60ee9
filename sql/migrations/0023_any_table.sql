-- Imports into tables that somebody else has made.

-- Names of columns that no table with rows to import can have, because the same statements work on any table.
ALTER TABLE users_aside RENAME held TO import_held;
ALTER TABLE users_aside RENAME missing TO import_missing;
ALTER TABLE users_aside RENAME refused TO import_refused;
ALTER TABLE articles_aside RENAME held TO import_held;
ALTER TABLE articles_aside RENAME missing TO import_missing;
ALTER TABLE articles_aside RENAME refused TO import_refused;
ALTER TABLE comments_aside RENAME held TO import_held;
ALTER TABLE comments_aside RENAME missing TO import_missing;
ALTER TABLE comments_aside RENAME refused TO import_refused;

-- Every table is prepared by the function below.
DROP FUNCTION prepare_for_imports(regclass);

-- Lets the rows of a table say which import and which line they come from, and whether anybody has changed them since. A
-- block range index finds an import's rows, which lie together, and costs loading next to nothing.
CREATE FUNCTION trace_imports(target regclass) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'ALTER TABLE %s ADD COLUMN import_job bigint, ADD COLUMN import_line bigint,
            ADD COLUMN import_revised boolean NOT NULL DEFAULT false', target);
    EXECUTE format(
        'CREATE TRIGGER revised BEFORE UPDATE ON %s FOR EACH ROW
         WHEN (OLD.import_job IS NOT NULL AND NOT OLD.import_revised
               AND NEW.import_job IS NOT DISTINCT FROM OLD.import_job
               AND NEW.import_line IS NOT DISTINCT FROM OLD.import_line)
         EXECUTE FUNCTION mark_revised()', target);
    EXECUTE format('CREATE INDEX ON %s USING brin (import_job) WITH (pages_per_range = 32)', target);
END
$$;
