-- The tables to try the program with. The declarations in the program say the same of the first three; a test compares
-- them. The migrations 0002 and 0003 made these tables before they were samples, and stay as they were: a database from
-- that time has its tables from there, and what is changed here changes no table that somebody has.

-- name: there
-- Which of these tables are there, and whether each says where its rows come from, so that it is one of ours.
SELECT name, EXISTS (
    SELECT FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid WHERE tgrelid = to_regclass(name) AND proname = 'mark_revised'
)
FROM unnest(:names::text[]) AS name WHERE to_regclass(name) IS NOT NULL;

-- name: resources!
-- The resources. Text that is compared is compared by its bytes: quick, and the same in every locale. Users are looked up
-- in articles, and both in comments, when they are removed or named in a filter.
CREATE TABLE users (
    id uuid CONSTRAINT users_pkey PRIMARY KEY,
    email text COLLATE "C" NOT NULL,
    name text NOT NULL,
    role text COLLATE "C" NOT NULL,
    active boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),

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

    CONSTRAINT articles_slug_is_kebab_case CHECK (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$'),
    CONSTRAINT articles_title_is_not_blank CHECK (btrim(title) <> ''),
    CONSTRAINT articles_body_is_not_blank CHECK (btrim(body) <> ''),
    CONSTRAINT articles_status_is_known CHECK (status IN ('draft', 'published')),
    CONSTRAINT articles_draft_is_not_published CHECK (status <> 'draft' OR published_at IS NULL)
);
CREATE INDEX articles_author_id ON articles (author_id);
CREATE TABLE comments (
    id uuid CONSTRAINT comments_pkey PRIMARY KEY,
    article_id uuid NOT NULL CONSTRAINT comments_article_id_fkey REFERENCES articles (id),
    user_id uuid NOT NULL CONSTRAINT comments_user_id_fkey REFERENCES users (id),
    body text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT comments_body_is_not_blank CHECK (btrim(body) <> '')
);
CREATE INDEX comments_article_id ON comments (article_id);
CREATE INDEX comments_user_id ON comments (user_id);

-- name: index_data!
-- What the default query of a distribution reads: the constituents of an index on a day.
CREATE TABLE IF NOT EXISTS index_data (
    index_key text NOT NULL,
    effective_date date NOT NULL,
    asof_indicator text NOT NULL,
    constituent text NOT NULL,
    weight numeric(12, 10) NOT NULL,
    close numeric(18, 6) NOT NULL,

    PRIMARY KEY (index_key, effective_date, asof_indicator, constituent),
    CONSTRAINT index_data_weight_is_a_share CHECK (weight BETWEEN 0 AND 1)
);
