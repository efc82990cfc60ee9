-- Where the tables of this program stand. Older versions made them where the address looked first, among those of people.

-- name: homes_on_the_path
-- The schemas, of those in which names of people are looked for, that have tables of this program.
SELECT n.nspname
FROM unnest(current_schemas(false)) WITH ORDINALITY AS looked (name, place)
    JOIN pg_namespace AS n ON n.nspname = looked.name
WHERE n.nspname <> :own AND (
    SELECT count(*) = 3 FROM pg_class
    WHERE relnamespace = n.oid AND relkind = 'r' AND relname IN ('_yoyo_migration', 'job_item', 'rejected_row')
)
ORDER BY place;

-- name: home_elsewhere
-- A schema that has the tables of this program, wherever it is.
SELECT n.nspname FROM pg_namespace AS n
WHERE n.nspname <> :own AND (
    SELECT count(*) = 3 FROM pg_class
    WHERE relnamespace = n.oid AND relkind = 'r' AND relname IN ('_yoyo_migration', 'job_item', 'rejected_row')
)
ORDER BY 1 LIMIT 1;

-- name: things_there
-- Of these things, those that are in a schema, each named as ALTER wants it. Functions and types come before the tables
-- that they name.
SELECT thing.kind, format('%%I.%%s', :home::text, CASE thing.kind WHEN 'FUNCTION' THEN thing.name ELSE quote_ident(thing.name) END)
FROM unnest(:kinds::text[], :names::text[]) WITH ORDINALITY AS thing (kind, name, place)
WHERE CASE thing.kind
    WHEN 'FUNCTION' THEN to_regprocedure(format('%%I.%%s', :home::text, thing.name)) IS NOT NULL
    WHEN 'TYPE' THEN EXISTS (
        SELECT FROM pg_type WHERE typnamespace = to_regnamespace(quote_ident(:home)) AND typname = thing.name AND typtype = 'e'
    )
    ELSE EXISTS (
        SELECT FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(:home)) AND relname = thing.name
            AND relkind = CASE thing.kind WHEN 'TABLE' THEN 'r' ELSE 'S' END
    )
END
ORDER BY thing.kind = 'FUNCTION' DESC, place;

-- name: staged_there
-- The tables that imports into tables of people have for themselves.
SELECT relname FROM pg_class
WHERE relnamespace = to_regnamespace(quote_ident(:home)) AND relkind = 'r' AND relname ~ '^import_(aside|ledger)_\d{1,18}$';

-- name: users_of_tables
-- The roles that may do something with our tables, and whether each of them may make tables beside them; no name means
-- everybody.
SELECT coalesce(r.rolname, ''), CASE WHEN r.oid IS NULL THEN false ELSE has_schema_privilege(r.oid, :home::text, 'CREATE') END
FROM (
    SELECT DISTINCT right_of.grantee
    FROM pg_class AS c, aclexplode(c.relacl) AS right_of
    WHERE c.relnamespace = to_regnamespace(quote_ident(:own)) AND right_of.grantee <> c.relowner
) AS found LEFT JOIN pg_roles AS r ON r.oid = found.grantee
WHERE found.grantee = 0 OR r.oid IS NOT NULL;

-- name: same_names
-- What has one of these names in a schema.
SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(:own)) AND relname = ANY (:names::text[])
UNION
SELECT typname::text FROM pg_type
WHERE typnamespace = to_regnamespace(quote_ident(:own)) AND typname = ANY (:names::text[]) AND typrelid = 0
UNION
SELECT proname::text FROM pg_proc WHERE pronamespace = to_regnamespace(quote_ident(:own)) AND proname = ANY (:names::text[])
ORDER BY 1;

-- name: others_there
-- What else stands in the schema that is ours.
SELECT relname::text FROM pg_class
WHERE relnamespace = to_regnamespace(quote_ident(:own)) AND relkind IN ('r', 'p', 'v', 'm', 'f')
    AND relname <> ALL (:names::text[]) AND relname !~ '^import_(aside|ledger)_\d{1,18}$'
ORDER BY 1 LIMIT 20;

-- name: usable
-- Whether a schema is there, and this role may use it.
SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = :own;

-- name: named_alike
-- Tables of people that are found by a name that one of ours has, too.
SELECT format('%%I.%%I', n.nspname, c.relname)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relname = ANY (:names::text[])
    AND n.nspname = ANY (current_schemas(false)) AND n.nspname <> :own AND n.nspname IS DISTINCT FROM :former::text
ORDER BY 1 LIMIT 20;
