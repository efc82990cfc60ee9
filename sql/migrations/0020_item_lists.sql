-- Lists of items over all jobs, of one owner or of all, of one kind of job or of all. The items of one owner, kind and
-- status stand together in the index, in the order of their pages. There are few such groups, so a list over several of
-- them merges their beginnings.
DROP INDEX job_item_by_owner;
CREATE INDEX job_item_by_owner ON job_item (owner, kind, status, updated_at, item_id);

-- A glance at one field of an input, whatever the case of its name: a short text, never the whole of it.
CREATE FUNCTION input_text(input jsonb, field text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (
    SELECT left(value #>> '{}', 200)
    FROM jsonb_each(input)
    WHERE lower(key) = field AND jsonb_typeof(value) NOT IN ('object', 'array', 'null')
    ORDER BY key = field DESC
    LIMIT 1
);
