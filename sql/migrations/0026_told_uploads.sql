-- Whether the sender of a resumable upload was told its address. Until then nobody else can go on with it, so that it is
-- kept no longer than its first request lasts. Afterwards the same request with its key begins it anew.
ALTER TABLE upload ADD COLUMN told boolean NOT NULL DEFAULT false;

UPDATE upload SET told = resumable;
