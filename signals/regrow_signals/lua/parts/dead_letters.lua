-- Writes one dead letter, the fate of its signal, the event and the counter, and tells a client that waits for a reply.
-- Needs count and replies. `grave`: dead, fate, events, counters (keys), agent, incarnation, type, max_events, max_dead.
-- `fields` is one signal's, bounded by the caller.
local function bury(grave, now, entry, reason, error, attempts, fields)
  local id, place = '', ''
  for i = 1, #fields, 2 do
    if fields[i] == 'id' then id = fields[i + 1] elseif fields[i] == 'replyto' then place = fields[i + 1] end
  end
  redis.call('XADD', grave.dead, '*', 'entry', entry, 'reason', reason, 'error', error, 'attempts', attempts,
    'dead_ms', now, unpack(fields))
  if id ~= '' and #id <= 512 then redis.call('HSET', grave.fate, id, 'dead ' .. reason) end
  local kind = string.match(reason, '^[%w_]+') or 'other'
  count(grave.counters, 'signals_dead_total|type=' .. grave.type .. '|reason=' .. kind, 1)
  event(grave.events, grave.max_events, now, 'dead_letter', 'agent', grave.agent, 'incarnation', grave.incarnation,
    'reason', reason, 'detail', #id <= 512 and id or '')
  if place ~= '' then reply_dead(string.sub(grave.dead, 1, -6 - #grave.agent), place, reason, error) end
end

-- `fields` with one more, which whoever takes them does not keep.
local function with_field(fields, name, value, take)
  local n = #fields
  fields[n + 1], fields[n + 2] = name, value
  take(fields)
  fields[n + 1], fields[n + 2] = nil, nil
end
