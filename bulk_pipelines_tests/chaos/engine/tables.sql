-- What the items of the chaos tests leave behind. No constraint: what happened twice must show.

-- Each time an item was begun and done, in transactions of their own: at least once.
CREATE TABLE mark (
    item_key text NOT NULL,
    term integer NOT NULL,
    worker text NOT NULL,
    stage text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The data of an item, committed with its checkpoint: exactly once.
CREATE TABLE part (
    item_key text NOT NULL,
    number integer NOT NULL,
    worker text NOT NULL
);
