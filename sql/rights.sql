-- What the role of a session may not do, in words that go behind "may not".

-- name: missing
-- Tables that the role cannot both read and write, and sequences that it cannot draw from. It may have learnt that only
-- in the middle of its work.
SELECT 'read and write ' || string_agg(name, ', ' ORDER BY name)
FROM unnest(:tables::text[]) AS name
WHERE NOT (
    has_table_privilege(name, 'SELECT') AND has_table_privilege(name, 'INSERT')
    AND has_table_privilege(name, 'UPDATE') AND has_table_privilege(name, 'DELETE')
)
HAVING count(*) > 0
UNION ALL
SELECT 'draw from ' || string_agg(name, ', ' ORDER BY name)
FROM unnest(:sequences::text[]) AS name
WHERE NOT has_sequence_privilege(name, 'USAGE')
HAVING count(*) > 0;

-- name: missing_to_try
-- Rows that a table refuses are found by trying, in a temporary table and by a temporary function.
SELECT format('make temporary tables in the database %s (GRANT TEMPORARY ON DATABASE)', current_database())
WHERE NOT has_database_privilege(current_database(), 'TEMPORARY')
UNION ALL
SELECT 'use the language plpgsql (GRANT USAGE ON LANGUAGE)'
WHERE NOT has_language_privilege('plpgsql', 'USAGE');
