-- The numbers of a strict order of which an attempt was recorded, so that a registration finds at once whether one of them is
-- above its own.
CREATE INDEX ordered_attempted ON notifications (lane, order_key, order_number, registered_ms)
WHERE order_key IS NOT NULL AND order_mode = 'strict' AND (attempts > 0 OR state IN ('delivered', 'dead'));
-- When the endpoint was made, if one of the same name had been removed before: what was registered earlier is not a part of
-- its orders.
ALTER TABLE endpoints ADD COLUMN made_again_ms INTEGER
GENERATED ALWAYS AS (CASE WHEN json_valid(settings) THEN json_extract(settings, '$.made_again_ms') END) VIRTUAL;
