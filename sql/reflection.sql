-- What PostgreSQL's catalogue knows of a table, for the declaration of its resource. Tables are named by their oids.

-- name: find_table
-- The table that a person means, by its name as it is written in SQL: its oid, schema and name, what it is, and which
-- rights this role lacks that imports and exports need. Row-level security is told if it holds for this role.
SELECT c.oid, n.nspname, c.relname, c.relkind::text, row_security_active(c.oid),
    obj_description(c.oid, 'pg_class'),
    has_schema_privilege(n.oid, 'USAGE'), has_any_column_privilege(c.oid, 'SELECT')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.oid = :table::regclass;

-- name: columns
-- The columns of a table that rows can give values for. For each: its name; its type as people write it; the type below
-- any domains, with the length that holds; the bare name and the category of that type; whether it is an enum, and its
-- labels; whether a value is needed, which nobody can tell if a trigger may give one, and whether the table has a
-- default; and its comment.
WITH RECURSIVE base AS (
    SELECT a.attnum, a.atttypid AS type, a.atttypmod AS typmod, a.attnotnull AS needed, a.atthasdef AS filled
    FROM pg_attribute AS a
    WHERE a.attrelid = :oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
        AND a.attidentity <> 'a'
    UNION ALL
    SELECT base.attnum, t.typbasetype, CASE WHEN t.typtypmod >= 0 THEN t.typtypmod ELSE base.typmod END,
        base.needed OR t.typnotnull, base.filled OR t.typdefault IS NOT NULL
    FROM base JOIN pg_type AS t ON t.oid = base.type
    WHERE t.typtype = 'd'
)
SELECT a.attname, format_type(a.atttypid, a.atttypmod), format_type(base.type, base.typmod), t.typname,
    t.typcategory::text, t.typtype::text,
    CASE WHEN t.typtype = 'e' THEN
        (SELECT array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum AS e WHERE e.enumtypid = t.oid)::text[]
    END,
    CASE
        WHEN t.typname IN ('varchar', 'bpchar') AND base.typmod >= 4 THEN base.typmod - 4
    END,
    base.needed AND NOT EXISTS (
        SELECT FROM pg_trigger
        WHERE tgrelid = a.attrelid AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 7 = 7
    ),
    base.filled OR a.attidentity <> '', col_description(a.attrelid, a.attnum)
FROM base JOIN pg_attribute AS a ON a.attrelid = :oid AND a.attnum = base.attnum JOIN pg_type AS t ON t.oid = base.type
WHERE t.typtype <> 'd'
ORDER BY a.attnum;

-- name: columns_of_query
-- The columns of a query, by their names, types and type modifiers, told as those of tables are. PostgreSQL tells the
-- types below domains.
SELECT given.name, format_type(t.oid, nullif(given.modifier, -1)), format_type(t.oid, nullif(given.modifier, -1)),
    t.typname, t.typcategory::text, t.typtype::text, NULL::text[], NULL::integer, false, false, NULL::text
FROM unnest(:names::text[], :types::oid[], :modifiers::integer[]) WITH ORDINALITY AS given (name, type, modifier, place)
    JOIN pg_type AS t ON t.oid = given.type
ORDER BY given.place;

-- name: parts
-- What a type is made of: of which sort it is; the type below a domain, of the bounds of a range, or of the elements of
-- an array whose texts are told apart by commas; and the types of the fields of a composite type.
SELECT t.typtype::text,
    CASE t.typtype
        WHEN 'd' THEN format_type(t.typbasetype, t.typtypmod)
        WHEN 'r' THEN (SELECT format_type(rngsubtype, NULL) FROM pg_range WHERE rngtypid = t.oid)
        WHEN 'm' THEN (SELECT format_type(rngsubtype, NULL) FROM pg_range WHERE rngmultitypid = t.oid)
        WHEN 'b' THEN (SELECT format_type(e.oid, NULL) FROM pg_type AS e WHERE e.typarray = t.oid AND e.typdelim = ',')
    END,
    (
        SELECT array_agg(format_type(atttypid, atttypmod) ORDER BY attnum) FROM pg_attribute
        WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped
    )
FROM pg_type AS t
WHERE t.oid = :type::regtype;

-- name: keys
-- The keys of a table by which rows are compared: the columns of each, and its constraint or index; the primary key
-- first, then those whose columns need values, then the shortest. The query leaves out what only the table itself can
-- judge: an index with expressions or a condition; one that takes a missing value for a value; one that compares by
-- another collation than its columns do, if either collation takes different texts for equal; and every index of a
-- table that others inherit, because their rows count as rows of the table and no index of it knows them.
SELECT c.relname,
    (
        SELECT array_agg(a.attname ORDER BY place)
        FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS key (attnum, place)
            JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = key.attnum
        WHERE place <= i.indnkeyatts
    )::text[] AS columns
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = :oid AND i.indisunique AND i.indisvalid AND NOT i.indisexclusion
    AND i.indexprs IS NULL AND i.indpred IS NULL AND NOT i.indnullsnotdistinct
    AND NOT EXISTS (
        SELECT FROM pg_inherits JOIN pg_class AS p ON p.oid = inhparent WHERE inhparent = :oid AND p.relkind = 'r'
    )
    AND NOT EXISTS (
        SELECT FROM unnest(i.indkey::smallint[], i.indcollation::oid[]) AS used (attnum, by)
            JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = used.attnum
            JOIN pg_collation AS o ON o.oid IN (used.by, a.attcollation)
        WHERE used.by <> a.attcollation AND NOT o.collisdeterministic
    )
ORDER BY i.indisprimary DESC,
    (
        SELECT bool_and(a.attnotnull) FROM pg_attribute AS a
        WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::smallint[])
    ) DESC,
    i.indnkeyatts, c.relname;

-- name: references
-- The foreign keys of a table: the constraint, its columns, and the table and the columns it refers to. The query
-- leaves out a key that this role may not look up, or whose rows row-level security may hide from it, but not from the
-- constraint; one of MATCH FULL, whose columns are missing all together or not at all; one that goes by periods; one
-- between columns of different collations, which no query can compare as they are; and one that is not enforced, which
-- PostgreSQL has since its version 18.
SELECT o.conname, n.nspname, c.relname,
    (
        SELECT array_agg(a.attname ORDER BY place)
        FROM unnest(o.conkey) WITH ORDINALITY AS key (attnum, place)
            JOIN pg_attribute AS a ON a.attrelid = o.conrelid AND a.attnum = key.attnum
    )::text[],
    (
        SELECT array_agg(a.attname ORDER BY place)
        FROM unnest(o.confkey) WITH ORDINALITY AS key (attnum, place)
            JOIN pg_attribute AS a ON a.attrelid = o.confrelid AND a.attnum = key.attnum
    )::text[]
FROM pg_constraint AS o JOIN pg_class AS c ON c.oid = o.confrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE o.conrelid = :oid AND o.contype = 'f' AND o.confmatchtype = 's' AND o.conparentid = 0
    AND to_jsonb(o) @> '{"conenforced": false}' IS NOT TRUE AND to_jsonb(o) @> '{"conperiod": true}' IS NOT TRUE
    AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
    AND NOT row_security_active(c.oid)
    AND NOT EXISTS (
        SELECT FROM unnest(o.conkey, o.confkey) AS key (own, other)
            JOIN pg_attribute AS a ON a.attrelid = o.conrelid AND a.attnum = key.own
            JOIN pg_attribute AS b ON b.attrelid = o.confrelid AND b.attnum = key.other
        WHERE a.attcollation <> b.attcollation AND 0 NOT IN (a.attcollation, b.attcollation)
    )
ORDER BY o.conname;

-- name: made_by_table
-- The columns of a table that no row can give a value for, because the table makes it.
SELECT a.attname::text
FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relname = :table AND a.attnum > 0 AND NOT a.attisdropped
    AND (a.attgenerated <> '' OR a.attidentity = 'a');

-- name: other_table
-- A table that this one refers to, or that refers to it: whether this role may read it, whether row-level security may
-- hide rows of it, and which of some columns it does not have. No row if the table is not there.
SELECT has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'), row_security_active(c.oid),
    ARRAY(
        SELECT name FROM unnest(:columns::text[]) AS name
        WHERE NOT EXISTS (
            SELECT FROM pg_attribute AS a
            WHERE a.attrelid = c.oid AND a.attname = name AND a.attnum > 0 AND NOT a.attisdropped
        )
    )
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relname = :table;

-- name: referrers
-- The foreign keys that refer to a table or to one of its partitions: the table and the columns of each, the columns
-- referred to, the collations by which they compare, if they have any, and whether this role cannot see the rows. If it
-- cannot, the query tells of the key only if the rows would change with a row that they refer to: the other keys do not
-- let such a row go.
SELECT n.nspname, c.relname, columns.names,
    (
        SELECT array_agg(a.attname ORDER BY place)
        FROM unnest(o.confkey) WITH ORDINALITY AS key (attnum, place)
            JOIN pg_attribute AS a ON a.attrelid = o.confrelid AND a.attnum = key.attnum
    )::text[],
    columns.collations, seen.hidden
FROM pg_constraint AS o JOIN pg_class AS c ON c.oid = o.conrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace,
    LATERAL (
        SELECT array_agg(a.attname ORDER BY place)::text[] AS names,
            bool_and(has_column_privilege(c.oid, a.attnum, 'SELECT')) AS readable,
            array_agg(quote_ident(l.nspname) || '.' || quote_ident(k.collname) ORDER BY place) AS collations
        FROM unnest(o.conkey, o.confkey) WITH ORDINALITY AS key (attnum, other, place)
            JOIN pg_attribute AS a ON a.attrelid = o.conrelid AND a.attnum = key.attnum
            JOIN pg_attribute AS b ON b.attrelid = o.confrelid AND b.attnum = key.other
            LEFT JOIN pg_collation AS d ON d.oid = b.attcollation AND NOT d.collisdeterministic
            LEFT JOIN pg_collation AS k ON k.oid = coalesce(d.oid, a.attcollation)
            LEFT JOIN pg_namespace AS l ON l.oid = k.collnamespace
    ) AS columns,
    LATERAL (
        SELECT NOT (has_schema_privilege(n.oid, 'USAGE') AND columns.readable AND NOT row_security_active(c.oid)) AS hidden
    ) AS seen
WHERE o.contype = 'f' AND o.conparentid = 0
    AND (o.confrelid = :oid OR o.confrelid IN (SELECT relid FROM pg_partition_tree(:oid)))
    AND to_jsonb(o) @> '{"conperiod": true}' IS NOT TRUE
    AND NOT (seen.hidden AND o.confdeltype IN ('a', 'r'))
ORDER BY o.conname;

-- name: unnoted_tables
-- The tables with the rows of this one that do not note when somebody changes a row: they lack the trigger that does,
-- or it is turned off. Each partition has a trigger of its own; what inherits in another way has none.
WITH RECURSIVE below AS (
    SELECT to_regclass(:table)::oid AS oid
    UNION SELECT inhrelid FROM pg_inherits JOIN below ON inhparent = below.oid
)
SELECT below.oid::regclass::text FROM below JOIN pg_class USING (oid)
WHERE relkind = 'r' AND NOT EXISTS (
    SELECT FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid
    WHERE tgrelid = below.oid AND proname = 'mark_revised' AND tgenabled IN ('O', 'A')
)
ORDER BY 1;
