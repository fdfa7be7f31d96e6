-- Timers. `{ns}:timers` holds each by the time to look at it; `{ns}:timer:<agent>#<tag>` says what it is;
-- `{ns}:timers-of:<agent>` holds the ids of those that an agent set itself, declared ones are named in its record.

-- An earlier one than all others wakes whoever fires them. Call it before `timers` is written.
local function wake_for(timers, bell, due)
  local first = redis.call('ZRANGE', timers, 0, 0, 'WITHSCORES')[2]
  if (not first or due < tonumber(first)) and redis.call('LLEN', bell) == 0 then redis.call('LPUSH', bell, '1') end
end

local function remove_timer(timer, timers, own, id)
  redis.call('DEL', timer)
  redis.call('ZREM', timers, id)
  redis.call('SREM', own, id)
end

-- Tags of the declared timers that its record names: `<digest> <tag> <tag> ..`.
local function declared_tags(schedules)
  local tags, first = {}, true
  for word in string.gmatch(schedules or '', '%S+') do
    if first then first = false else tags[#tags + 1] = word end
  end
  return tags
end

-- All timers of an agent that is forgotten; they are bounded by `max_timers` and by what its class declares.
local function forget_timers(agent_key)
  local prefix, agent = string.match(agent_key, '^({[^}]*}:)agent:(.+)$')
  local timers, own = prefix .. 'timers', prefix .. 'timers-of:' .. agent
  if corrupt({timers, 'zset', own, 'set', agent_key, 'hash'}) then return end
  local ids = redis.call('SMEMBERS', own)
  for _, tag in ipairs(declared_tags(redis.call('HGET', agent_key, 'schedules'))) do ids[#ids + 1] = agent .. '#' .. tag end
  for _, id in ipairs(ids) do remove_timer(prefix .. 'timer:' .. id, timers, own, id) end
end
