-- What the sweeper and retention go by.

ALTER TABLE job
    -- Launches in a row that came to nothing. Not dispatch_count: that also counts pauses, redrives and spent budgets.
    ADD COLUMN vain_launches integer NOT NULL DEFAULT 0,
    -- Since when the present launch is offered. The relay says offered_at anew each time it repeats the offer, so by that
    -- alone a launch whose run died before it began would never be silent.
    ADD COLUMN first_offered_at timestamptz;

-- When a source was last listed to its end: what was not seen then is gone.
ALTER TABLE drop_source ADD COLUMN whole_look_at timestamptz;

-- Retention looks for files that were not seen for long; those that still lie there are passed by unread.
DROP INDEX file_drop_ended;
CREATE INDEX file_drop_unseen ON file_drop (seen_at) WHERE ended_at IS NOT NULL;
