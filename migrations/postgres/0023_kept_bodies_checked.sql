-- Reads the whole table, beside servers that read and write it. Without this, the next migration would read it and make
-- them wait.
ALTER TABLE payloads VALIDATE CONSTRAINT payloads_all_kept;
