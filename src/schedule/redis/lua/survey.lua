-- survey: tries every command that the other scripts use, without an effect.
--
-- KEYS   1 a key that is not there
-- ARGV   none
-- Reply  of each command that is refused or unknown: its name, and what the server said
-- Keeps  nothing is changed: a command that would write gets a key that is not there, a condition that does not hold
--        (XX), or a value that it refuses. HSETNX and HSET with a value cannot be tried so, and are as HSET with a
--        missing value, which is refused after the right to use it was checked.

local key = KEYS[1]
local undeclared = key .. ':lane'
local tries = {
  { 'TIME' },
  { 'PUBLISH', key, '' },
  { 'GET', key },
  { 'SET', key, '', 'XX' },
  { 'DEL', key },
  { 'UNLINK', key },
  { 'EXISTS', undeclared },
  { 'PEXPIRE', key, 1000 },
  { 'HGET', key, '' },
  { 'HGETALL', key },
  { 'HSET', key, 'field', 'value', 'a field without a value' },
  { 'HDEL', key, '' },
  { 'HMGET', key, '' },
  { 'HEXISTS', key, '' },
  { 'HRANDFIELD', key, 1 },
  { 'HINCRBY', key, 'field', 'not a number' },
  { 'HLEN', key },
  { 'HSCAN', key, 0 },
  { 'ZADD', key, 'XX', 1, 'member' },
  { 'ZREM', key, 'member' },
  { 'ZRANGE', key, '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, 1 },
  { 'ZREVRANGE', key, 0, 0 },
  { 'ZRANGEBYSCORE', key, 0, 0 },
  { 'ZREVRANGEBYSCORE', key, 0, 0 },
  { 'ZRANGEBYLEX', key, '-', '+' },
  { 'ZREVRANGEBYLEX', key, '+', '-' },
  { 'ZSCORE', key, 'member' },
  { 'ZMSCORE', key, 'member' },
  { 'ZCOUNT', key, 0, 0 },
  { 'ZCARD', key },
  { 'ZSCAN', key, 0 },
}
local expected = { HSET = 'wrong number', HINCRBY = 'not an integer' }
local refused = {}
for _, try in ipairs(tries) do
  local name = try[1]
  local reply = redis.pcall(unpack(try))
  local error = type(reply) == 'table' and reply['err']
  if error and not (expected[name] and string.find(error, expected[name], 1, true)) then
    refused[#refused + 1] = name
    refused[#refused + 1] = error
  end
end
return refused
