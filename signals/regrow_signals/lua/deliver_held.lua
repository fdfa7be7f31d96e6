-- deliver_held: held emits of one sender go to their targets, in order for each target; what cannot go in time dies.
-- KEYS 1 agent hash          the sender's record
-- KEYS 2 outbox stream       its effects and held emits
-- KEYS 3 dead stream         its dead letters
-- KEYS 4 fate hash           what became of signals not simply applied
-- KEYS 5 counters hash       what metrics are made of
-- KEYS 6 events stream       life events
-- KEYS 7 held zset           agents with held emits
-- ARGV 1 agent_id            the sender
-- ARGV 2 prefix              of all keys of the namespace: targets are known only from the outbox
-- ARGV 3 held_timeout_ms     held longer than this: dead letter target_full
-- ARGV 4 max_mailbox         bound of a mailbox without one of its own
-- ARGV 5 max_dead            bound of dead letters of a target
-- ARGV 6 max_events          cap of the events
-- ARGV 7 most                how many to settle at most
-- REPLY ok <settled>
-- REPLY corrupt <key> <why>
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
-- INCLUDE mailboxes
-- INCLUDE replies
-- INCLUDE dead_letters
-- INCLUDE unblock
local agent = KEYS[1]
local outbox = KEYS[2]
local dead = KEYS[3]
local fate = KEYS[4]
local counters = KEYS[5]
local events = KEYS[6]
local held = KEYS[7]
local PAGE = 100

local wrong = corrupt({agent, 'hash', outbox, 'stream', dead, 'stream', fate, 'hash', held, 'zset'})
if wrong then return wrong end
if exhausted(last_id(dead)) then return {'corrupt', dead, 'has used up its ids'} end
local now, timeout, most = now_ms(), tonumber(ARGV[3]), tonumber(ARGV[7])
local bounds = {max_mailbox = tonumber(ARGV[4]), max_dead = tonumber(ARGV[5])}
local record = redis.call('HMGET', agent, 'incarnation', 'type')
local grave = {dead = dead, fate = fate, events = events, counters = counters, agent = ARGV[1],
  incarnation = record[1] or '', type = record[2] or '', max_events = ARGV[6]}
if not record[2] then
  redis.call('ZREM', held, ARGV[1])
  return {'ok', '0'}
end

local boxes, touched, oldest = {}, {}, nil
local function box_of(target)
  if not boxes[target] then
    local p = ARGV[2]
    boxes[target] = look_at_mailbox(p .. 'agent:' .. target, p .. 'mailbox:' .. target, p .. 'dead:' .. target, bounds, now)
    boxes[target].left, boxes[target].settled = 0, 0
    touched[#touched + 1] = target
  end
  return boxes[target]
end

local function settle(entry, flat)
  local emit, fields = {}, {}
  for i = 1, #flat, 2 do
    if flat[i] == 'kind' or flat[i] == 'target' or flat[i] == 'held_ms' then
      emit[flat[i]] = flat[i + 1]
    else
      fields[#fields + 1] = flat[i]
      fields[#fields + 1] = flat[i + 1]
    end
  end
  if emit.kind ~= 'emit' then return false end
  local target = emit.target or ''
  local box = box_of(target)
  local late = now - (tonumber(emit.held_ms) or now) > timeout
  if box.gone or (late and (box.full or box.room <= 0)) then
    fields[#fields + 1] = 'target'
    fields[#fields + 1] = target
    bury(grave, now, entry, box.gone or 'target_full', '', 0, fields)
  elseif box.full or box.room <= 0 then
    box.full = true
    box.left = box.left + 1
    oldest = oldest or tonumber(emit.held_ms)
    return false
  else
    fields[#fields + 1] = 'at_ms'
    fields[#fields + 1] = now
    put_in_mailbox(box, fields)
  end
  redis.call('XDEL', outbox, entry)
  box.settled = box.settled + 1
  return true
end

local settled, from, whole = 0, '-', false
for _ = 1, redis.call('XLEN', outbox) / PAGE + 1 do
  local page = redis.call('XRANGE', outbox, from, '+', 'COUNT', PAGE)
  for _, item in ipairs(page) do
    if settled < most and settle(item[1], item[2]) then settled = settled + 1 end
    if settled >= most then break end
    from = '(' .. item[1]
  end
  whole = settled < most and #page < PAGE
  if whole or settled >= most then break end
end

local left = 0
for _, target in ipairs(touched) do
  local field, box = 'held:' .. target, boxes[target]
  local remain = whole and box.left or (tonumber(redis.call('HGET', agent, field) or '0') or 0) - box.settled
  if remain > 0 then redis.call('HSET', agent, field, remain) else redis.call('HDEL', agent, field) end
  left = left + box.left
end
-- Where the whole outbox was seen without a held emit, counts that are left are wrong (it was emptied by hand).
local waiting = false
for _, field in ipairs(redis.call('HKEYS', agent)) do
  if string.sub(field, 1, 5) == 'held:' then
    if whole and left == 0 then redis.call('HDEL', agent, field) else waiting = true end
  end
end
if not waiting then
  redis.call('ZREM', held, ARGV[1])
elseif oldest then
  redis.call('ZADD', held, oldest, ARGV[1])
end
unblock(agent, outbox)
return {'ok', tostring(settled)}
