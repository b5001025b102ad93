-- `payloads` in partitions, by the instant of registration, which is a part of the row number. When all bodies of a partition
-- are old enough, those that are still needed are moved to `payloads_kept`, and the partition is dropped: see
-- src/journal/postgres/partitions.rs. Statements name `payloads` only, so that servers of the version before can work. What they
-- register goes to `payloads_kept`, because of the default of `kept`.
ALTER TABLE payloads RENAME TO payloads_kept;
ALTER INDEX payloads_pkey RENAME TO payloads_kept_pkey;

-- No primary key: one would have to contain both columns by which the table is divided. Each partition has its own.
CREATE TABLE payloads (
    notification BIGINT NOT NULL,
    headers      TEXT NOT NULL,
    body         BYTEA NOT NULL,
    kept         BOOLEAN NOT NULL DEFAULT TRUE
) PARTITION BY LIST (kept);
ALTER TABLE payloads ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE payloads ATTACH PARTITION payloads_kept FOR VALUES IN (TRUE);

CREATE TABLE payloads_live PARTITION OF payloads FOR VALUES IN (FALSE) PARTITION BY RANGE (notification);
-- Stays empty, unless a partition is removed by hand: then bodies of its time are put here, and none is refused.
CREATE TABLE payloads_rest PARTITION OF payloads_live (PRIMARY KEY (notification)) DEFAULT;

-- From which row number until which one bodies are in partitions: of none yet.
INSERT INTO meta (name, value) VALUES ('kept:payloads_live', '0/0') ON CONFLICT (name) DO NOTHING;

-- The tables belong to whom the table of before belongs, and who has rights on that one has the same ones here. Whoever may delete
-- bodies may also move them.
DO $$
DECLARE
    owner TEXT;
    held  RECORD;
BEGIN
    SELECT quote_ident(pg_get_userbyid(relowner)) INTO owner FROM pg_class WHERE oid = 'payloads_kept'::regclass;
    EXECUTE format('ALTER TABLE payloads OWNER TO %s', owner);
    EXECUTE format('ALTER TABLE payloads_live OWNER TO %s', owner);
    EXECUTE format('ALTER TABLE payloads_rest OWNER TO %s', owner);
    FOR held IN
        SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee, privilege_type
        FROM pg_class, aclexplode(relacl)
        WHERE oid = 'payloads_kept'::regclass AND grantee <> relowner
    LOOP
        EXECUTE format('GRANT %s ON payloads TO %s', held.privilege_type, held.grantee);
        IF held.privilege_type = 'DELETE' THEN
            EXECUTE format('GRANT UPDATE ON payloads TO %s', held.grantee);
        END IF;
    END LOOP;
END $$;
