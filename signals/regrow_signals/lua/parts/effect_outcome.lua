-- INCLUDE effect_limits
-- An effect's end. Needs corrupt, count, entry_ids, mailboxes, unblock. `effect`: id agent entry birth name node status
-- queue ('' or '-async': the end of the names of the effects' and the bell's key) limited (it has a place under its name's limit)
-- tag cancelled (it was told to stop: what would be tried again, or is in doubt, is cancelled).
-- The outcome needs no room: effects under way are bounded by the outbox, and every send counts what lies there.
local function outcome_box(prefix, effect, now)
  local id = effect.agent
  local wrong = corrupt({prefix .. 'agent:' .. id, 'hash', prefix .. 'mailbox:' .. id, 'stream', prefix .. 'outbox:' .. id,
    'stream', prefix .. 'dead:' .. id, 'stream', prefix .. 'claims:' .. (effect.node or ''), 'set'})
  if wrong then return nil, wrong end
  local box = look_at_mailbox(prefix .. 'agent:' .. id, prefix .. 'mailbox:' .. id, prefix .. 'dead:' .. id,
    {max_mailbox = 0, max_dead = 0}, now)
  if box.gone and box.gone ~= 'no_such_agent' then
    return nil, {'corrupt', prefix .. 'mailbox:' .. id, 'takes no entry: ' .. box.gone}
  end
  if box.birth and effect.birth and box.birth ~= effect.birth then box.gone = 'no_such_agent' end
  return box
end

local function cancelled_data(effect)
  return '{"effect":' .. cjson.encode(effect.id) .. ',"tag":' .. cjson.encode(effect.tag or '') .. ',"attempts":' ..
    string.format('%.0f', effect.attempts) .. '}'
end

local function settle_effect(prefix, effect, box, outcome, data, now)
  local counted = outcome
  if box.gone then
    counted = 'dropped'
  else
    local fields = {'id', effect.id .. ':' .. outcome, 'type', effect.name .. '.' .. outcome,
      'source', 'effect:' .. effect.name, 'data', data, 'at_ms', now, 'causationid', effect.id}
    for name, value in pairs({traceparent = effect.traceparent, tracestate = effect.tracestate, subject = effect.tag}) do
      if value then fields[#fields + 1], fields[#fields + 2] = name, value end
    end
    put_in_mailbox(box, fields)
    redis.call('XDEL', prefix .. 'outbox:' .. effect.agent, effect.entry)
    unblock(prefix .. 'agent:' .. effect.agent, prefix .. 'outbox:' .. effect.agent)
  end
  redis.call('DEL', prefix .. 'effect:' .. effect.id)
  redis.call('ZREM', prefix .. 'effects' .. effect.queue, effect.id)
  if effect.node then redis.call('SREM', prefix .. 'claims:' .. effect.node, effect.id) end
  give_room(prefix, effect)
  if effect.tag then redis.pcall('HDEL', prefix .. 'effect-tags:' .. effect.agent, effect.id) end
  if effect.cancelled then redis.pcall('SREM', prefix .. 'cancelling', effect.id) end
  count(prefix .. 'counters', 'effects_total|name=' .. effect.name .. '|outcome=' .. counted, 1)
end

-- The effect's record as a table, or nil where there is none that can be read.
local function read_effect(prefix, id)
  local record = redis.call('HMGET', prefix .. 'effect:' .. id, 'agent', 'entry', 'birth', 'name', 'status', 'node',
    'executor', 'token', 'attempts', 'kills', 'idempotent', 'timeout_ms', 'due_ms', 'settled_token', 'queue', 'limited',
    'tag', 'cancelled', 'traceparent', 'tracestate')
  if not (record[1] and is_id(record[2]) and record[4] and record[5]) then return nil end
  return {id = id, agent = record[1], entry = record[2], birth = record[3] or nil, name = record[4], status = record[5],
    node = record[6] or nil, executor = record[7], token = record[8], attempts = tonumber(record[9]) or 0,
    kills = tonumber(record[10]) or 0, idempotent = record[11] == '1', timeout_ms = tonumber(record[12]) or 0,
    due_ms = tonumber(record[13]) or 0, settled_token = record[14], queue = record[15] == '-async' and '-async' or '',
    limited = record[16] == '1', tag = record[17] or nil, cancelled = record[18] == '1', traceparent = record[19] or nil,
    tracestate = record[20] or nil}
end

-- What becomes of a claimed effect whose executor is gone. Returns the word and the outcome's data (nil: pending again).
local function after_a_death(effect, max_kills)
  if effect.cancelled then return 'cancelled', cancelled_data(effect) end
  local kills = effect.kills + 1
  local attempts = string.format('%.0f', effect.attempts)
  if not effect.idempotent then
    return 'in_doubt', '{"effect":' .. cjson.encode(effect.id) .. ',"attempts":' .. attempts .. '}'
  end
  if kills >= max_kills then
    return 'failed', '{"effect":' .. cjson.encode(effect.id) .. ',"error":"its executor was lost ' .. kills ..
      ' times","attempts":' .. attempts .. '}'
  end
  return 'pending'
end
