-- A table that is traced may have triggers of any names already.

CREATE OR REPLACE FUNCTION trace_imports(target regclass) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    name text := 'import_revised';
    number integer := 1;
BEGIN
    EXECUTE format(
        'ALTER TABLE %s ADD COLUMN import_job bigint, ADD COLUMN import_line bigint,
            ADD COLUMN import_revised boolean NOT NULL DEFAULT false', target);
    LOOP
        BEGIN
            EXECUTE format(
                'CREATE TRIGGER %I BEFORE UPDATE ON %s FOR EACH ROW
                 WHEN (OLD.import_job IS NOT NULL AND NOT OLD.import_revised
                       AND NEW.import_job IS NOT DISTINCT FROM OLD.import_job
                       AND NEW.import_line IS NOT DISTINCT FROM OLD.import_line)
                 EXECUTE FUNCTION mark_revised()', name, target);
            EXIT;
        -- The table has a trigger of this name, or one of its partitions has.
        EXCEPTION WHEN duplicate_object THEN
            number := number + 1;
            name := format('import_revised_%s', number);
        END;
    END LOOP;
    EXECUTE format('CREATE INDEX ON %s USING brin (import_job) WITH (pages_per_range = 32)', target);
END
$$;
