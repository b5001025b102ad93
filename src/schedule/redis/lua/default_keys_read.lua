-- default_keys_read: the record of the default keys, where there is no journal. Only reads.
--
-- The record is a STRING, `default_keys` in the first partition: the number of its last change, a blank, and what only
-- the servers read.
--
-- Reply  now, record ('' if there is none, or if another client has overwritten it with another type)

local record = redis.pcall('GET', ARGV[2] .. 'default_keys')
return { NOW, type(record) == 'string' and record or '' }
