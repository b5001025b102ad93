-- Receivers that are registered under a name. The text in `settings` is described in src/domain/endpoint.rs.
--
-- Every change gives its row the next number, and changes wait for each other. So a server that has read all
-- rows up to a number finds every later change behind that number. A removed endpoint keeps its row: attempts of
-- a notification that was registered in the same moment still need its settings.
CREATE TABLE endpoints (
    name       TEXT COLLATE "C" PRIMARY KEY,
    number     BIGINT NOT NULL UNIQUE,
    version    INTEGER NOT NULL,
    removed    BOOLEAN NOT NULL,
    settings   TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    changed_ms BIGINT NOT NULL,
    -- Who made the last change, and which instance accepted it.
    actor      TEXT NOT NULL,
    instance   TEXT NOT NULL
);
