-- The rows of a table name the import that they come from by the id of its job. Whoever begins anew in another schema of
-- the same database, or drops this one, has these rows still: an id that was given before would stand for other rows, and
-- undoing an import would delete them. So ids begin with the moment at which the schema is made, in microseconds, which no
-- earlier schema has come to.
SELECT setval(pg_get_serial_sequence('job', 'job_id'), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
