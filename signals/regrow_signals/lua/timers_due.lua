-- timers_due: timers whose time has come, the earliest first, with what it takes to decide about them. Reads only.
-- KEYS 1 timers zset      all timers by the time to look at them
-- ARGV 1 prefix           of all keys of the namespace: timers are known only from the set
-- ARGV 2 most             how many at most
-- REPLY ok <Redis ms> <ms of the first that is not due yet, or ''> then id set due kind expression tz every missed set_ms of each
-- REPLY corrupt <key> <why>
-- INCLUDE now_ms
-- INCLUDE corrupt
local timers = KEYS[1]
local prefix, most = ARGV[1], tonumber(ARGV[2])

local wrong = corrupt({timers, 'zset'})
if wrong then return wrong end
local now = now_ms()
local text = string.format('%.0f', now)
local ids = redis.call('ZRANGE', timers, '-inf', text, 'BYSCORE', 'LIMIT', 0, most)
local later = ''
if #ids < most then later = redis.call('ZRANGE', timers, '(' .. text, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2] or '' end
local reply = {'ok', text, later}
for _, id in ipairs(ids) do
  local timer = prefix .. 'timer:' .. id
  local record = corrupt({timer, 'hash'}) and {}
    or redis.call('HMGET', timer, 'set', 'due_ms', 'kind', 'expression', 'tz', 'every_ms', 'missed', 'set_ms')
  reply[#reply + 1] = id
  for field = 1, 8 do reply[#reply + 1] = record[field] or '' end
end
return reply
