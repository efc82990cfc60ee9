-- What retention has been through.

ALTER TABLE job ADD COLUMN items_pruned_at timestamptz;

CREATE INDEX job_to_prune ON job (finished_at) WHERE finished_at IS NOT NULL AND items_pruned_at IS NULL;

-- The dead letters of all jobs, the oldest first.
CREATE INDEX job_item_dlq ON job_item (updated_at, item_id) WHERE status = 'DLQ';
