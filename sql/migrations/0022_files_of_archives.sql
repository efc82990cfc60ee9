-- The files of archives are rows like the files that an import asks for, and rejects that are run again are read exactly as
-- their file was.

ALTER TABLE import_file
    -- The number of the archive that the file lies in; null for a file that was asked for.
    ADD COLUMN archive integer,
    -- How the file is read whatever it looks like, for a file that the program wrote itself.
    ADD COLUMN wanted_layout jsonb;
