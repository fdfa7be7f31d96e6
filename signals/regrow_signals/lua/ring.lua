-- ring: which effects are due to be told to an executor; each is due again after a while, should nobody claim it.
-- KEYS 1 effects zset      effects by due time
-- ARGV 1 prefix            of all keys of the namespace: effects are known only from the zset
-- ARGV 2 most              how many at most
-- ARGV 3 rering_ms         when to tell again
-- REPLY ok <effect> <name> <agent> <attempts> <timeout_ms> ...
-- REPLY corrupt <key> <why>
-- INCLUDE now_ms
-- INCLUDE corrupt
local effects = KEYS[1]
local prefix = ARGV[1]

local wrong = corrupt({effects, 'zset'})
if wrong then return wrong end
local now = now_ms()
local reply = {'ok'}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', effects, '-inf', now, 'LIMIT', 0, ARGV[2])) do
  local key = prefix .. 'effect:' .. id
  local again = true
  if not corrupt({key, 'hash'}) then
    local effect = redis.call('HMGET', key, 'name', 'agent', 'attempts', 'timeout_ms', 'status', 'node')
    again = effect[5]
    -- A claim is told again only when its executor's node is gone: claim_effect then takes it over.
    local orphan = effect[5] == 'claimed' and redis.call('EXISTS', prefix .. 'node:' .. (effect[6] or '')) == 0
    if effect[5] == 'pending' or orphan then
      local n = #reply
      reply[n + 1], reply[n + 2], reply[n + 3] = id, effect[1] or '', effect[2] or ''
      reply[n + 4], reply[n + 5] = effect[3] or '0', effect[4] or '0'
    end
  end
  if again then redis.call('ZADD', effects, now + ARGV[3], id) else redis.call('ZREM', effects, id) end
end
return reply
