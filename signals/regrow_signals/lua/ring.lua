-- ring: which effects are due to be told to an executor; each is due again after a while, should nobody claim it.
-- KEYS 1 effects zset      effects of one queue by due time
-- KEYS 2 limits hash       how many of a name at once, or in a time
-- ARGV 1 prefix            of all keys of the namespace: effects are known only from the zset
-- ARGV 2 most              how many at most
-- ARGV 3 rering_ms         when to tell again
-- ARGV 4 queue             how the queue's keys end
-- REPLY ok <ms until the next is due, -1: none waits> <effect> <name> <agent> <attempts> <timeout_ms> ...
-- REPLY corrupt <key> <why>
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE effect_limits
local effects = KEYS[1]
local limits = KEYS[2]
local prefix, most, queue = ARGV[1], tonumber(ARGV[2]), ARGV[4]

local wrong = corrupt({effects, 'zset', limits, 'hash'})
if wrong then return wrong end
local now = now_ms()
local reply, told = {'ok', '-1'}, 0
local function record_of(id)
  local key = prefix .. 'effect:' .. id
  if corrupt({key, 'hash'}) then return nil end
  return redis.call('HMGET', key, 'name', 'agent', 'attempts', 'timeout_ms', 'status', 'node', 'due_ms')
end
local function tell(id, effect)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = id, effect[1] or '', effect[2] or ''
  reply[n + 4], reply[n + 5] = effect[3] or '0', effect[4] or '0'
  told = told + 1
  redis.call('ZADD', effects, now + ARGV[3], id)
end

-- Of a name with a limit no more is told than it has room for; the others are parked, the longest due first.
local named, order, listed = {}, {}, redis.call('HGETALL', limits)
for i = 1, #listed, 2 do
  local limit = read_limit(listed[i + 1])
  if limit and not limit_keys_corrupt(prefix, queue, listed[i]) then
    named[listed[i]] = {limit = limit, told = 0}
    order[#order + 1] = listed[i]
  end
end
local function let_go(name)
  local one, parked = named[name], parked_key(prefix, queue, name)
  if not one.room then one.room, one.wait = effect_room(prefix, name, one.limit, now) end
  while told < most and one.told < one.room.free do
    local id = redis.call('ZPOPMIN', parked)[1]
    if not id then break end
    local effect = record_of(id)
    if effect and effect[5] == 'pending' then
      tell(id, effect)
      one.told = one.told + 1
    end
  end
end
for _, name in ipairs(order) do
  if redis.call('EXISTS', parked_key(prefix, queue, name)) == 1 then let_go(name) end
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', effects, '-inf', now, 'LIMIT', 0, most + 64)) do
  if told >= most then break end
  local effect = record_of(id)
  local status = effect and effect[5]
  if effect and not status then
    redis.call('ZREM', effects, id)
  elseif status == 'pending' and named[effect[1] or ''] then
    park(prefix, queue, effect[1], id, tonumber(effect[7]) or now)
    let_go(effect[1])
  -- A claim is told again only when its executor's node is gone: claim_effect then takes it over.
  elseif status == 'pending' or (status == 'claimed' and redis.call('EXISTS', prefix .. 'node:' .. (effect[6] or '')) == 0) then
    tell(id, effect)
  else
    redis.call('ZADD', effects, now + ARGV[3], id)
  end
end

local due = tonumber(redis.call('ZRANGE', effects, 0, 0, 'WITHSCORES')[2])
for _, name in ipairs(order) do
  local one = named[name]
  if redis.call('EXISTS', parked_key(prefix, queue, name)) == 1 then
    -- Who waits for a place is rung for when one is given back, or found at the next look.
    local wait = one.wait(one.told)
    if wait and (not due or now + wait < due) then due = now + wait end
  elseif one.limit.void and redis.call('EXISTS', parked_key(prefix, queue == '' and '-async' or '', name)) == 0 then
    redis.call('HDEL', limits, name)
  end
end
if due then reply[2] = string.format('%.0f', math.max(due - now, 0)) end
return reply
