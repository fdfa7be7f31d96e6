-- Who is told of what is published. Needs corrupt. All keys come from `prefix`, the namespace's own:
-- subscriptions hash          <pattern>: how many subscribe to it; `.order`: the last number given
-- wildcards set               those of them that are looked through at each publish
-- subscribers:<pattern> hash  <agent>: <priority> <order> <policy> <birth>
-- agent:<agent> hash          `subscribed:<pattern>`: spec or call; `subscriptions`: how many; `subscribe`: the spec's patterns
local function prefix_of(key, agent)
  return string.sub(key, 1, #key - #agent - #'agent:')
end

local function is_wild(pattern)
  return string.find(pattern, '*', 1, true) ~= nil
end

local function subscription_fault(prefix, agent, pattern)
  return corrupt({prefix .. 'agent:' .. agent, 'hash', prefix .. 'subscriptions', 'hash', prefix .. 'wildcards', 'set',
    prefix .. 'subscribers:' .. pattern, 'hash'})
end

-- nil, or what is full: {which, length, bound}. `bounds`: max_subscribers, max_patterns.
local function subscription_bound(prefix, agent, pattern, bounds)
  local subscribers, wildcards = prefix .. 'subscribers:' .. pattern, prefix .. 'wildcards'
  if redis.call('HEXISTS', subscribers, agent) == 1 then return nil end
  local length = redis.call('HLEN', subscribers)
  if length >= bounds.max_subscribers then return {'pattern ' .. pattern, length, bounds.max_subscribers} end
  length = tonumber(redis.call('HGET', prefix .. 'agent:' .. agent, 'subscriptions') or '0') or 0
  if length >= bounds.max_patterns then return {'agent ' .. agent, length, bounds.max_patterns} end
  length = redis.call('SCARD', wildcards)
  if is_wild(pattern) and length >= bounds.max_patterns and redis.call('SISMEMBER', wildcards, pattern) == 0 then
    return {'the list of patterns with wildcards', length, bounds.max_patterns}
  end
end

local function full_text(full)
  return full[1] .. ' has ' .. full[2] .. ' subscriptions, ' .. full[3] .. ' is the bound'
end

local function count_subscriptions(key, by)
  local length = (tonumber(redis.call('HGET', key, 'subscriptions') or '0') or 0) + by
  if length > 0 then redis.call('HSET', key, 'subscriptions', length) else redis.call('HDEL', key, 'subscriptions') end
end

-- Subscribes, or changes priority and policy of what is there, which keeps its place. Whether it is new.
local function subscribe(prefix, agent, pattern, priority, policy, origin)
  local key, subscriptions = prefix .. 'agent:' .. agent, prefix .. 'subscriptions'
  local subscribers, field = prefix .. 'subscribers:' .. pattern, 'subscribed:' .. pattern
  local birth = redis.call('HGET', key, 'birth') or ''
  local before, of = string.match(redis.call('HGET', subscribers, agent) or '', '^%-?%d+ (%d+) %a+ (%S*)$')
  local is_new = redis.call('HEXISTS', key, field) == 0
  local order = of == birth and before or nil
  if not order then
    order = string.format('%.0f', (tonumber(redis.call('HGET', subscriptions, '.order') or '0') or 0) + 1)
    redis.call('HSET', subscriptions, '.order', order)
  end
  redis.call('HSET', subscribers, agent, priority .. ' ' .. order .. ' ' .. policy .. ' ' .. birth)
  redis.call('HSET', subscriptions, pattern, redis.call('HLEN', subscribers))
  if is_wild(pattern) then redis.call('SADD', prefix .. 'wildcards', pattern) end
  redis.call('HSET', key, field, origin)
  if is_new then count_subscriptions(key, 1) end
  return is_new
end

-- Whether there was anything to end.
local function unsubscribe(prefix, agent, pattern)
  local key, subscriptions = prefix .. 'agent:' .. agent, prefix .. 'subscriptions'
  local subscribers = prefix .. 'subscribers:' .. pattern
  if redis.call('HDEL', key, 'subscribed:' .. pattern) == 1 then count_subscriptions(key, -1) end
  if redis.call('HDEL', subscribers, agent) == 0 then return false end
  local left = redis.call('HLEN', subscribers)
  if left > 0 then
    redis.call('HSET', subscriptions, pattern, left)
  else
    redis.call('HDEL', subscriptions, pattern)
    redis.call('SREM', prefix .. 'wildcards', pattern)
  end
  return true
end

-- All that an agent subscribes to; what a damaged key keeps from being cleaned is found by its birth later.
local function unsubscribe_all(prefix, agent)
  local key = prefix .. 'agent:' .. agent
  if not redis.call('HGET', key, 'subscriptions') then return end
  for _, field in ipairs(redis.call('HKEYS', key)) do
    local pattern = string.match(field, '^subscribed:(.+)$')
    if pattern and not subscription_fault(prefix, agent, pattern) then unsubscribe(prefix, agent, pattern) end
  end
end

-- What the child's spec says by now: `wanted` is pattern, priority, policy in turn; what it said before and says no longer
-- ends. Nobody waits for an answer: what is beyond the bounds (max_subscribers, max_patterns, max_events) is an event.
-- Needs count.
local function set_spec_subscriptions(prefix, agent, wanted, bounds, now)
  local key = prefix .. 'agent:' .. agent
  local before = redis.call('HGET', key, 'subscribe')
  if not before and #wanted == 0 then return end
  local patterns, keeps = {}, {}
  for i = 1, #wanted, 3 do
    patterns[#patterns + 1], keeps[wanted[i]] = wanted[i], true
  end
  for pattern in string.gmatch(before or '', '%S+') do
    if not keeps[pattern] and redis.call('HGET', key, 'subscribed:' .. pattern) == 'spec'
      and not subscription_fault(prefix, agent, pattern) then
      unsubscribe(prefix, agent, pattern)
    end
  end
  if #patterns > 0 then redis.call('HSET', key, 'subscribe', table.concat(patterns, ' ')) else redis.call('HDEL', key, 'subscribe') end
  for i = 1, #wanted, 3 do
    local wrong = subscription_fault(prefix, agent, wanted[i])
    local full = not wrong and subscription_bound(prefix, agent, wanted[i], bounds)
    if wrong or full then
      count(prefix .. 'counters', 'subscriptions_refused_total', 1)
      event(prefix .. 'events', bounds.max_events, now, 'subscription_refused', 'agent', agent,
        'reason', wrong and wrong[2] .. ' ' .. wrong[3] or full_text(full), 'detail', wanted[i])
    else
      subscribe(prefix, agent, wanted[i], wanted[i + 1], wanted[i + 2], 'spec')
    end
  end
end
