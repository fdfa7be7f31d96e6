-- schedules_install: the timers that the classes of some agents declare, each agent's put in force whole or left alone.
-- KEYS 1 leader string      must hold our token
-- KEYS 2 timers zset        all timers by the time to look at them
-- KEYS 3 bell list          wakes whoever fires timers
-- ARGV 1 token              of the leader
-- ARGV 2 prefix             of all keys of the namespace
-- ARGV 3 agents             how many
-- ARGV ... lists            agent, what its record is to name, n, (tag kind expression tz every_ms missed type data)..
-- REPLY ok <agents changed>
-- REPLY corrupt <key> <why>
-- REPLY refused not_leader
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE timer_keys
local leader = KEYS[1]
local timers = KEYS[2]
local bell = KEYS[3]
local prefix = ARGV[2]
local NAMES = {'tag', 'kind', 'expression', 'tz', 'every_ms', 'missed', 'type', 'data'}

local wrong = corrupt({leader, 'string', timers, 'zset', bell, 'list'})
if wrong then return wrong end
if ARGV[1] == '' or redis.call('GET', leader) ~= ARGV[1] then return {'refused', 'not_leader'} end
local now = now_ms()
local look = string.format('%.0f', now)

local function put_in_force(agent, birth, own, new)
  local id = agent .. '#' .. new.tag
  local timer = prefix .. 'timer:' .. id
  local old = redis.call('HMGET', timer, 'declared', 'birth', 'kind', 'expression', 'tz', 'every_ms')
  local same = old[1] == '1' and old[2] == birth and old[3] == new.kind and old[4] == new.expression and old[5] == new.tz
    and old[6] == new.every_ms
  if not same then
    redis.call('DEL', timer)
    redis.call('SREM', own, id)
    redis.call('HSET', timer, 'agent', agent, 'birth', birth, 'to', agent, 'declared', '1', 'due_ms', '', 'set_ms', look,
      'set', birth .. ':' .. new.tag .. ':' .. look)
    wake_for(timers, bell, now)
    redis.call('ZADD', timers, look, id)
  end
  for _, name in ipairs(NAMES) do redis.call('HSET', timer, name, new[name]) end
end

local function install(agent, wanted, declared)
  local key, own = prefix .. 'agent:' .. agent, prefix .. 'timers-of:' .. agent
  if corrupt({key, 'hash', own, 'set'}) then return false end
  local record = redis.call('HMGET', key, 'birth', 'schedules')
  if not record[1] or (record[2] or '') == wanted then return false end
  local keep = {}
  for _, new in ipairs(declared) do
    if corrupt({prefix .. 'timer:' .. agent .. '#' .. new.tag, 'hash'}) then return false end
    keep[new.tag] = true
  end
  for _, tag in ipairs(declared_tags(record[2])) do
    local id = agent .. '#' .. tag
    if not keep[tag] then remove_timer(prefix .. 'timer:' .. id, timers, own, id) end
  end
  for _, new in ipairs(declared) do put_in_force(agent, record[1], own, new) end
  if wanted == '' then redis.call('HDEL', key, 'schedules') else redis.call('HSET', key, 'schedules', wanted) end
  return true
end

local at, changed = 3, 0
for _ = 1, tonumber(ARGV[3]) do
  local agent, wanted, n = ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  at = at + 3
  local declared = {}
  for i = 1, n do
    local new = {}
    for place, name in ipairs(NAMES) do new[name] = ARGV[at + place] end
    at = at + #NAMES
    declared[i] = new
  end
  if install(agent, wanted, declared) then changed = changed + 1 end
end
return {'ok', tostring(changed)}
