-- The numbers of an order key of which an attempt was recorded, so that a registration finds at once whether one of them is
-- above its own. The last column is the instant of registration, which is a part of the row number.
CREATE INDEX statuses_ordered_attempted ON statuses (order_group, order_number, (notification >> 21))
WHERE order_group IS NOT NULL AND (attempts > 0 OR state IN ('delivered', 'dead'));
-- When the endpoint was made, if one of the same name had been removed before: what was registered earlier is not a part of
-- its orders. The settings are a JSON object. Within its texts a quotation mark follows a backslash, so this is the
-- member of that name. A server of the version before writes it too, without knowing this column.
ALTER TABLE endpoints ADD COLUMN made_again_ms BIGINT
GENERATED ALWAYS AS (CAST(substring(settings FROM ',"made_again_ms":([0-9]{1,15})[,}]') AS BIGINT)) STORED;
