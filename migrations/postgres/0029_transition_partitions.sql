-- `transitions` in partitions, as `attempts` since 0028. Partitions of both are made and dropped together.
ALTER TABLE transitions RENAME TO transitions_kept;
ALTER INDEX transitions_pkey RENAME TO transitions_kept_pkey;
ALTER INDEX transitions_changed_by_hand RENAME TO transitions_kept_changed_by_hand;

-- The column that numbers the rows is no longer an identity column: PostgreSQL 17 refuses to attach a table that has one. The numbers
-- go on where they were.
CREATE SEQUENCE transition_rows;
DO $$
BEGIN
    EXECUTE format(
        'SELECT setval(''transition_rows'', last_value, is_called) FROM %s', pg_get_serial_sequence('transitions_kept', 'row_id')
    );
END $$;
ALTER TABLE transitions_kept ALTER COLUMN row_id DROP IDENTITY;

CREATE TABLE transitions (LIKE transitions_kept INCLUDING DEFAULTS) PARTITION BY LIST (kept);
ALTER TABLE transitions ALTER COLUMN row_id SET DEFAULT nextval('transition_rows');
ALTER SEQUENCE transition_rows OWNED BY transitions.row_id;
ALTER TABLE transitions ATTACH PARTITION transitions_kept FOR VALUES IN (TRUE);
-- The same as that of the table of before, which becomes a part of it.
CREATE INDEX transitions_changed_by_hand ON transitions (at_ms, row_id)
WHERE kind IN ('cancelled', 'discarded', 'replayed', 'resent', 'retried', 'rescheduled');

CREATE TABLE transitions_live PARTITION OF transitions FOR VALUES IN (FALSE) PARTITION BY RANGE (notification);
-- Stays empty, unless a partition is removed by hand.
CREATE TABLE transitions_rest PARTITION OF transitions_live (PRIMARY KEY (notification, row_id)) DEFAULT;

-- From which row number until which one attempts and transitions are in partitions: of none yet.
INSERT INTO meta (name, value) VALUES ('kept:history_live', '0/0') ON CONFLICT (name) DO NOTHING;

-- The tables belong to whom the table of before belongs, and who has rights on that one has the same ones here. Whoever may delete
-- may also move, whoever may insert may number rows, and whoever may read may read each part, as `pg_dump` does.
DO $$
DECLARE
    owner TEXT;
    held  RECORD;
BEGIN
    SELECT quote_ident(pg_get_userbyid(relowner)) INTO owner FROM pg_class WHERE oid = 'transitions_kept'::regclass;
    EXECUTE format('ALTER TABLE transitions OWNER TO %s', owner);
    EXECUTE format('ALTER TABLE transitions_live OWNER TO %s', owner);
    EXECUTE format('ALTER TABLE transitions_rest OWNER TO %s', owner);
    FOR held IN
        SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee, privilege_type
        FROM pg_class, aclexplode(relacl)
        WHERE oid = 'transitions_kept'::regclass AND grantee <> relowner
    LOOP
        EXECUTE format('GRANT %s ON transitions TO %s', held.privilege_type, held.grantee);
        IF held.privilege_type = 'DELETE' THEN
            EXECUTE format('GRANT UPDATE ON transitions TO %s', held.grantee);
        ELSIF held.privilege_type = 'INSERT' THEN
            EXECUTE format('GRANT USAGE ON SEQUENCE transition_rows TO %s', held.grantee);
        ELSIF held.privilege_type = 'SELECT' THEN
            EXECUTE format('GRANT SELECT ON transitions_live, transitions_rest TO %s', held.grantee);
            EXECUTE format('GRANT SELECT ON SEQUENCE transition_rows TO %s', held.grantee);
        END IF;
    END LOOP;
END $$;
