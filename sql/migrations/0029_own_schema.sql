-- Everything of ours stands in a schema of its own.

-- The migrations 0002 and 0003 make tables to try the program with. In a new database they have just made them here, where
-- nobody wants them: they are made among the tables of people, when somebody asks for them. Where an older version has made
-- them, they stayed when everything else was moved; and no row that anybody has written is ever dropped.
DO $$
DECLARE
    filled boolean := false;
    sample text;
    here boolean;
BEGIN
    FOREACH sample IN ARRAY ARRAY['comments', 'articles', 'users', 'index_data'] LOOP
        IF to_regclass(format('%I.%I', current_schema(), sample)) IS NOT NULL THEN
            EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I)', current_schema(), sample) INTO here;
            filled := filled OR here;
        END IF;
    END LOOP;
    IF NOT filled THEN
        FOREACH sample IN ARRAY ARRAY['comments', 'articles', 'users', 'index_data'] LOOP
            EXECUTE format('DROP TABLE IF EXISTS %I.%I', current_schema(), sample);
        END LOOP;
    END IF;
END
$$;

-- These are called by sessions that look elsewhere first, too.
ALTER FUNCTION note_job_end() SET search_path FROM CURRENT;
ALTER FUNCTION trace_imports(regclass) SET search_path FROM CURRENT;
