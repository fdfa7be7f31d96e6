-- Limits of effects by name: how many calls at once, how many begin in a time. Needs corrupt.
-- {ns}:limits <name> = '<concurrency> <count> <period_ms>', 0 where there is no such limit; {ns}:buckets <name> = when its
-- bucket is full again, ms; {ns}:running:<name> the ids in executors' hands; {ns}:parked:<name> those that wait for room, by
-- due time. A place is given back by the very steps that end a claim; there is nothing else that counts.
local function read_limit(text)
  local concurrency, tokens, period = string.match(text or '', '^(%d+) (%d+) (%d+)$')
  if not concurrency then return nil end
  local limit = {concurrency = tonumber(concurrency), tokens = tonumber(tokens), period = tonumber(period)}
  if limit.tokens < 1 or limit.period < 1 then limit.tokens = 0 end
  limit.void = limit.concurrency == 0 and limit.tokens == 0
  return limit
end

-- A bucket of `limit.tokens`, filled evenly within `limit.period`, is known by the time when it is full again. How many tokens
-- it has, when it is full again after one is taken, and in how many ms it has one more than `taken`.
local function bucket(full_at, now, limit, taken)
  local step = limit.period / limit.tokens
  local used = math.min(math.max((full_at or 0) - now, 0), limit.period)
  local free = math.floor((limit.period - used) / step + 1e-6)
  local wait = math.ceil(used + (taken + 1) * step - limit.period - 1e-6)
  return free, now + used + step, math.max(wait, 0)
end

local function running_key(prefix, name) return prefix .. 'running:' .. name end

local function parked_key(prefix, queue, name)
  return prefix .. 'parked:' .. (queue == '' and '' or string.sub(queue, 2) .. '/') .. name
end

local function limit_keys_corrupt(prefix, queue, name)
  return corrupt({running_key(prefix, name), 'set', parked_key(prefix, queue, name), 'zset', prefix .. 'buckets', 'hash'})
end

-- {free, bound: which limit is met, if one is, full_at: of the bucket after one more}; and how many ms until there is room for
-- more than `taken` of them: nil where that is when another one ends.
local function effect_room(prefix, name, limit, now)
  local places, tokens, room, full_at = math.huge, math.huge, {}, nil
  if limit.concurrency > 0 then
    local running = running_key(prefix, name)
    places = limit.concurrency - redis.call('SCARD', running)
    -- Whose record somebody deleted by hand is in nobody's hands.
    for _, id in ipairs(places < 1 and redis.call('SRANDMEMBER', running, 8) or {}) do
      local record = prefix .. 'effect:' .. id
      if not corrupt({record, 'hash'}) and redis.call('HGET', record, 'status') ~= 'claimed' then
        places = places + redis.call('SREM', running, id)
      end
    end
  end
  if limit.tokens > 0 then
    full_at = tonumber(redis.call('HGET', prefix .. 'buckets', name) or '')
    -- Of a clock that was set back, or a limit that had a longer time: written, or it would be so until that time has come.
    if full_at and full_at > now + limit.period then
      full_at = now + limit.period
      redis.call('HSET', prefix .. 'buckets', name, string.format('%.0f', full_at))
    end
    tokens, room.full_at = bucket(full_at, now, limit, 0)
  end
  room.free = math.min(places, tokens)
  room.bound = places < 1 and 'concurrency' or tokens < 1 and 'rate' or nil
  return room, function(taken)
    if taken >= places then return nil end
    return taken < tokens and 0 or ({bucket(full_at, now, limit, taken)})[3]
  end
end

-- One begins: it has a place, and one token is gone.
local function take_room(prefix, name, limit, room, id)
  if limit.concurrency > 0 then redis.call('SADD', running_key(prefix, name), id) end
  if room.full_at then redis.call('HSET', prefix .. 'buckets', name, string.format('%.6f', room.full_at)) end
end

local function park(prefix, queue, name, id, due_ms)
  redis.call('ZREM', prefix .. 'effects' .. queue, id)
  redis.call('ZADD', parked_key(prefix, queue, name), due_ms, id)
end

-- A claim has ended, or a waiting effect goes: best effort, a damaged set of theirs must not keep an outcome from being told.
local function give_room(prefix, effect)
  if effect.status == 'claimed' and effect.limited then
    redis.pcall('SREM', running_key(prefix, effect.name), effect.id)
    for _, queue in ipairs({'', '-async'}) do
      local bell = prefix .. 'bell' .. queue
      if redis.call('EXISTS', parked_key(prefix, queue, effect.name)) == 1 and redis.pcall('LLEN', bell) == 0 then
        redis.pcall('LPUSH', bell, '1')
      end
    end
  elseif effect.status == 'pending' then
    redis.pcall('ZREM', parked_key(prefix, effect.queue, effect.name), effect.id)
  end
end
