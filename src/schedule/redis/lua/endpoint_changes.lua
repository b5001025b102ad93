-- endpoint_changes: the endpoints that have changed. Only reads.
--
-- ARGV   6 since when the data was here when the caller read it, as endpoint_page.lua said
--        7 the number of the last change that the caller has read
--        8 maximum number of endpoints in the reply
-- Reply  now, 'lost': everything must be read again; or 'all' | 'more', since when the data is here, then for each, in
--        the order of their changes: name, record

local most, after = tonumber(ARGV[8]), tonumber(ARGV[7])
local fields = endpoint_fields(':number', ':since')
local number = tonumber(fields[1] or nil) or 0
local generation = generation_of(fields[2])
-- Who has found nothing here may read everything as changes.
local is_other = generation ~= ARGV[6] and after > 0
if is_other or number < after or index_surplus() ~= 0 then return { NOW, 'lost' } end
local reply = { NOW, 'all', generation }
if number == after then return reply end

local live = call('ZRANGEBYSCORE', CHANGES, '(' .. ARGV[7], '+inf', 'WITHSCORES', 'LIMIT', 0, most)
local removed = call('ZREVRANGEBYSCORE', CHANGES, '(-' .. ARGV[7], '-inf', 'WITHSCORES', 'LIMIT', 0, most)
local names, l, r = {}, 1, 1
while live[l] or removed[r] do
  if #names == most then
    reply[2] = 'more'
    break
  end
  if not removed[r] or (live[l] and tonumber(live[l + 1]) < -tonumber(removed[r + 1])) then
    names[#names + 1] = live[l]
    l = l + 2
  else
    names[#names + 1] = removed[r]
    r = r + 2
  end
end
if not names[1] then return { NOW, 'lost' } end
local records = call('HMGET', ENDPOINTS, unpack(names))
for n, name in ipairs(names) do
  if not records[n] then return { NOW, 'lost' } end
  reply[#reply + 1] = name
  reply[#reply + 1] = records[n]
end
return reply
