-- The resources: users, articles, comments; what every one of them needs to be imported; rejected records.
-- The declarations in the program say the same; a test compares the two.

-- Text that is compared is compared by its bytes: quick, and the same in every locale.
CREATE TABLE users (
    id uuid CONSTRAINT users_pkey PRIMARY KEY,
    email text COLLATE "C" NOT NULL,
    name text NOT NULL,
    role text COLLATE "C" NOT NULL,
    active boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- Which import and which line of its file wrote the row; whether anybody changed it since.
    -- No reference to the job: jobs are removed in time, the rows stay.
    import_job bigint,
    import_line bigint,
    import_revised boolean NOT NULL DEFAULT false,

    CONSTRAINT users_role_is_known CHECK (role IN ('admin', 'editor', 'author', 'reader')),
    CONSTRAINT users_name_is_not_blank CHECK (btrim(name) <> ''),
    CONSTRAINT users_email_has_a_host CHECK (strpos(email, '@') > 1)
);

CREATE UNIQUE INDEX users_email_key ON users (lower(email));

CREATE TABLE articles (
    id uuid CONSTRAINT articles_pkey PRIMARY KEY,
    slug text COLLATE "C" NOT NULL CONSTRAINT articles_slug_key UNIQUE,
    title text NOT NULL,
    description text,
    body text NOT NULL,
    author_id uuid NOT NULL CONSTRAINT articles_author_id_fkey REFERENCES users (id),
    tags text[] NOT NULL DEFAULT '{}',
    published_at timestamptz,
    status text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    import_job bigint,
    import_line bigint,
    import_revised boolean NOT NULL DEFAULT false,

    CONSTRAINT articles_slug_is_kebab_case CHECK (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$'),
    CONSTRAINT articles_title_is_not_blank CHECK (btrim(title) <> ''),
    CONSTRAINT articles_body_is_not_blank CHECK (btrim(body) <> ''),
    CONSTRAINT articles_status_is_known CHECK (status IN ('draft', 'published')),
    CONSTRAINT articles_draft_is_not_published CHECK (status <> 'draft' OR published_at IS NULL)
);

-- Users are looked up here when they are removed, or named in a filter.
CREATE INDEX articles_author_id ON articles (author_id);

CREATE TABLE comments (
    id uuid CONSTRAINT comments_pkey PRIMARY KEY,
    article_id uuid NOT NULL CONSTRAINT comments_article_id_fkey REFERENCES articles (id),
    user_id uuid NOT NULL CONSTRAINT comments_user_id_fkey REFERENCES users (id),
    body text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    import_job bigint,
    import_line bigint,
    import_revised boolean NOT NULL DEFAULT false,

    CONSTRAINT comments_body_is_not_blank CHECK (btrim(body) <> '')
);

CREATE INDEX comments_article_id ON comments (article_id);
CREATE INDEX comments_user_id ON comments (user_id);

-- A row that anybody but its own import changes is no longer the import's to take back.
CREATE FUNCTION mark_revised() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    NEW.import_revised := true;
    RETURN NEW;
END
$$;

-- Makes a resource's table ready for imports: the mark above; a cheap way to an import's rows (they lie together,
-- so a block range index of some kilobytes finds them and costs loading next to nothing); and `<table>_aside`, where records wait that passed
-- the rules of the file but that the table could not take at once.
CREATE FUNCTION prepare_for_imports(target regclass) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    aside text := target || '_aside';
BEGIN
    EXECUTE format(
        'CREATE TRIGGER revised BEFORE UPDATE ON %s FOR EACH ROW
         WHEN (OLD.import_job IS NOT NULL AND NOT OLD.import_revised
               AND NEW.import_job IS NOT DISTINCT FROM OLD.import_job
               AND NEW.import_line IS NOT DISTINCT FROM OLD.import_line)
         EXECUTE FUNCTION mark_revised()', target);
    EXECUTE format(
        'CREATE INDEX %I ON %s USING brin (import_job) WITH (pages_per_range = 32)', target || '_import', target);
    EXECUTE format('CREATE TABLE %I AS TABLE %s WITH NO DATA', aside, target);
    EXECUTE format(
        'ALTER TABLE %I DROP COLUMN import_revised,
            -- Keys that rows of other origin held, and references to rows that did not exist.
            ADD COLUMN held text[] NOT NULL DEFAULT ''{}'',
            ADD COLUMN missing text[] NOT NULL DEFAULT ''{}'',
            -- Anything else that the table objected to.
            ADD COLUMN refused text,
            ADD PRIMARY KEY (import_job, import_line)', aside);
END
$$;

SELECT prepare_for_imports('users');
SELECT prepare_for_imports('articles');
SELECT prepare_for_imports('comments');

-- Records that were not loaded, in the order of their file. No reference to the job: it would be checked for
-- every row, and a job's rejects are removed in bounded batches before it.
CREATE TABLE rejected_row (
    job_id bigint NOT NULL,
    line bigint NOT NULL,
    -- The record's bytes as they stood in the file; null until they have been read again.
    raw bytea,
    -- How many bytes the record has, where `raw` is only its beginning.
    raw_size bigint,
    reasons jsonb NOT NULL,

    PRIMARY KEY (job_id, line),
    CONSTRAINT rejected_row_has_reasons CHECK (jsonb_typeof(reasons) = 'array' AND reasons <> '[]'),
    CONSTRAINT rejected_row_is_cut_short CHECK (raw_size > octet_length(raw))
);

-- Few at any time: records whose bytes are still to be read again.
CREATE INDEX rejected_row_unread ON rejected_row (job_id, line) WHERE raw IS NULL;
