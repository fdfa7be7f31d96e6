-- Room in a full mailbox for the newest signal of a kind: the oldest waiting one of it becomes a dead letter `overflow`.
-- Needs corrupt, count, entry_ids, dead_letters. `into`: prefix, events, counters, max_events, max_dead (a number), now.
-- A worker may hold the dropped one in a batch: `dropped` in the agent's record has its commit refused, and the worker
-- goes on carefully. The one that is being tried is never dropped, so an agent comes on under a flood.
local OVERFLOW_PAGE, OVERFLOW_PAGES = 20, 50
local OVERFLOW_OURS = {entry = true, reason = true, error = true, attempts = true, dead_ms = true, target = true}

-- Of this type, and nobody waits for a reply to it.
local function may_give_way(flat, kind)
  local fits = false
  for i = 1, #flat, 2 do
    if flat[i] == 'replyto' then return false end
    if flat[i] == 'type' and flat[i + 1] == kind then fits = true end
  end
  return fits
end

local function oldest_of(mailbox, cursor, kind, tried)
  local from = '(' .. cursor
  for _ = 1, OVERFLOW_PAGES do
    local page = redis.call('XRANGE', mailbox, from, '+', 'COUNT', OVERFLOW_PAGE)
    for _, item in ipairs(page) do
      if item[1] ~= tried and #item[2] <= 200 and may_give_way(item[2], kind) then return item[1], item[2] end
      from = '(' .. item[1]
    end
    if #page < OVERFLOW_PAGE then return nil end
  end
end

-- Whether one was dropped.
local function drop_oldest(into, agent, kind)
  local key, mailbox, dead = into.prefix .. 'agent:' .. agent, into.prefix .. 'mailbox:' .. agent, into.prefix .. 'dead:' .. agent
  local fate = into.prefix .. 'fate:' .. agent
  if corrupt({key, 'hash', mailbox, 'stream', dead, 'stream', fate, 'hash'}) then return false end
  if redis.call('XLEN', dead) >= into.max_dead or exhausted(last_id(dead)) or exhausted(last_id(mailbox)) then return false end
  local record = redis.call('HMGET', key, 'cursor', 'trying', 'type', 'incarnation', 'dropped')
  if not is_id(record[1]) then return false end
  local tried = string.match(record[2] or '', '^(%d+%-%d+) ')
  local entry, flat = oldest_of(mailbox, record[1], kind, tried)
  if not entry then return false end
  local fields = {}
  for i = 1, #flat, 2 do
    fields[i] = (OVERFLOW_OURS[flat[i]] and 'signal.' or '') .. flat[i]
    fields[i + 1] = flat[i + 1]
  end
  bury({dead = dead, fate = fate, events = into.events, counters = into.counters, agent = agent,
    incarnation = record[4] or '', type = record[3] or '', max_events = into.max_events}, into.now, entry, 'overflow',
    'it gave way to a newer one: the subscription says policy=latest', 0, fields)
  redis.call('XDEL', mailbox, entry)
  if not is_id(record[5]) or older(record[5], entry) then redis.call('HSET', key, 'dropped', entry) end
  redis.pcall('HINCRBY', key, 'failed', 1)
  return true
end
