-- What reviewers decided about rows, and files that serve as references.

-- A decision is about all rows of a recipe that say the same thing, in this job and in later ones.
CREATE TABLE review_decision (
    recipe text NOT NULL,
    -- The SHA-256 of what a row says, by the columns that the recipe asks with.
    row_key bytea NOT NULL,
    verdict text NOT NULL,
    -- The candidate that is right, with its values for the grid.
    entry jsonb,
    -- The candidates that are wrong.
    rejected text[] NOT NULL DEFAULT '{}',
    -- What the row said, for people.
    said jsonb NOT NULL,
    -- The best candidate when the decision was made, of which thresholds are learned.
    best_id text,
    best_score double precision,
    lead double precision,
    decided_by text NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT now(),

    PRIMARY KEY (recipe, row_key),
    CONSTRAINT review_decision_verdict_is_known CHECK (verdict IN ('accept', 'none', 'open')),
    CONSTRAINT review_decision_accepts_an_entry CHECK ((verdict = 'accept') = (entry IS NOT NULL)),
    CONSTRAINT review_decision_decides_something CHECK (verdict <> 'open' OR cardinality(rejected) > 0)
);

-- The rows that wait for a reviewer, in their order.
CREATE INDEX job_item_ambiguous ON job_item (job_id, item_key)
WHERE status = 'SUCCEEDED' AND result ->> 'outcome' = 'ambiguous';

-- A file that rows are matched with. It is loaded anew when it has changed.
CREATE TABLE reference_file (
    reference_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The file's address, as its recipe names it.
    source text NOT NULL,
    -- The column with the ids of its entries.
    id_column text NOT NULL,
    -- What its storage calls this version of the file.
    version text NOT NULL,
    columns text[] NOT NULL,
    loaded_at timestamptz NOT NULL DEFAULT now(),
    used_at timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT reference_file_is_loaded_once UNIQUE (source, id_column)
);

CREATE TABLE reference_row (
    reference_id bigint NOT NULL REFERENCES reference_file ON DELETE CASCADE,
    number bigint NOT NULL,
    entry_id text NOT NULL,
    row jsonb NOT NULL,

    PRIMARY KEY (reference_id, number)
);

-- Entries are shown by their ids.
CREATE INDEX reference_row_by_id ON reference_row (reference_id, entry_id);
