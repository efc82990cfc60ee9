-- Files whose import failed: a redrive of its job may bring it to a good end later.
CREATE INDEX file_drop_failed ON file_drop (source, job_id) WHERE status = 'FAILED';
