-- Reads both tables, beside servers that read and write them. Without this, the next migrations would read them and make them wait.
ALTER TABLE attempts VALIDATE CONSTRAINT attempts_all_kept;
ALTER TABLE transitions VALIDATE CONSTRAINT transitions_all_kept;
