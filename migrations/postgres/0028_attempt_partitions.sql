-- `attempts` in partitions, by the instant of registration of the notification, which is a part of the row number: as `payloads` since
-- 0024. See src/journal/postgres/partitions.rs. Statements name `attempts` only, so that servers of the version before can work. What they
-- record goes to `attempts_kept`, because of the default of `kept`.
--
-- No primary key: one would have to contain both columns by which the table is divided. Each partition has its own.
ALTER TABLE attempts RENAME TO attempts_kept;
ALTER INDEX attempts_pkey RENAME TO attempts_kept_pkey;

-- The column that numbers the rows is no longer an identity column: PostgreSQL 17 refuses to attach a table that has one. The numbers
-- go on where they were.
CREATE SEQUENCE attempt_rows;
DO $$
BEGIN
    EXECUTE format(
        'SELECT setval(''attempt_rows'', last_value, is_called) FROM %s', pg_get_serial_sequence('attempts_kept', 'row_id')
    );
END $$;
ALTER TABLE attempts_kept ALTER COLUMN row_id DROP IDENTITY;

CREATE TABLE attempts (LIKE attempts_kept INCLUDING DEFAULTS) PARTITION BY LIST (kept);
ALTER TABLE attempts ALTER COLUMN row_id SET DEFAULT nextval('attempt_rows');
ALTER SEQUENCE attempt_rows OWNED BY attempts.row_id;
ALTER TABLE attempts ATTACH PARTITION attempts_kept FOR VALUES IN (TRUE);

CREATE TABLE attempts_live PARTITION OF attempts FOR VALUES IN (FALSE) PARTITION BY RANGE (notification);
-- Stays empty, unless a partition is removed by hand.
CREATE TABLE attempts_rest PARTITION OF attempts_live (PRIMARY KEY (notification, series, number, started_ms, outcome)) DEFAULT;

-- The tables belong to whom the table of before belongs, and who has rights on that one has the same ones here. Whoever may delete
-- may also move, whoever may insert may number rows, and whoever may read may read each part, as `pg_dump` does.
DO $$
DECLARE
    owner TEXT;
    held  RECORD;
BEGIN
    SELECT quote_ident(pg_get_userbyid(relowner)) INTO owner FROM pg_class WHERE oid = 'attempts_kept'::regclass;
    EXECUTE format('ALTER TABLE attempts OWNER TO %s', owner);
    EXECUTE format('ALTER TABLE attempts_live OWNER TO %s', owner);
    EXECUTE format('ALTER TABLE attempts_rest OWNER TO %s', owner);
    FOR held IN
        SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee, privilege_type
        FROM pg_class, aclexplode(relacl)
        WHERE oid = 'attempts_kept'::regclass AND grantee <> relowner
    LOOP
        EXECUTE format('GRANT %s ON attempts TO %s', held.privilege_type, held.grantee);
        IF held.privilege_type = 'DELETE' THEN
            EXECUTE format('GRANT UPDATE ON attempts TO %s', held.grantee);
        ELSIF held.privilege_type = 'INSERT' THEN
            EXECUTE format('GRANT USAGE ON SEQUENCE attempt_rows TO %s', held.grantee);
        ELSIF held.privilege_type = 'SELECT' THEN
            EXECUTE format('GRANT SELECT ON attempts_live, attempts_rest TO %s', held.grantee);
            EXECUTE format('GRANT SELECT ON SEQUENCE attempt_rows TO %s', held.grantee);
        END IF;
    END LOOP;
END $$;
