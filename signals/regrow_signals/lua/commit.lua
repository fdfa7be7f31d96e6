-- commit: what one batch of one agent did, whole or not at all; a repeat of a landed one writes nothing.
-- KEYS 1 agent hash        the agent's record
-- KEYS 2 mailbox stream    its mailbox, trimmed up to and including the cursor
-- KEYS 3 outbox stream     its effects and held emits
-- KEYS 4 dead stream       its dead letters
-- KEYS 5 journal stream    its last transitions
-- KEYS 6 fate hash         what became of signals not simply applied
-- KEYS 7 counters hash     what metrics are made of
-- KEYS 8 events stream     life events
-- KEYS 9 held zset         agents with held emits
-- KEYS 10 effects zset     effects by due time
-- KEYS 11 bell list        wakes the ringer
-- KEYS ... others mixed     agent hash, mailbox and dead stream of each target; the hash of each effect; keys of others
-- ARGV 1 agent_id          the agent
-- ARGV 2 incarnation       of the owner
-- ARGV 3 token             of the owner
-- ARGV 4 base_version      what the batch was made from
-- ARGV 5 base_cursor       likewise
-- ARGV 6 version           after it
-- ARGV 7 cursor            after it
-- ARGV 8 min_id            the id after the cursor; '' when there is none
-- ARGV 9 handled           signals applied
-- ARGV 10 failed           signals dead-lettered
-- ARGV 11 agent_type       for the counters
-- ARGV 12 has_state        1 when `state` is new
-- ARGV 13 state            JSON
-- ARGV 14 schema           of the state
-- ARGV 15 has_error        1 when `error` is new
-- ARGV 16 error            text for last_error
-- ARGV 17 max_mailbox      bound of a mailbox without one of its own
-- ARGV 18 max_dead         bound of dead letters of a target
-- ARGV 19 max_outbox       over it the agent is blocked
-- ARGV 20 max_events       cap of the events
-- ARGV 21 journal_length   entries the journal keeps, about
-- ARGV 22 targets          how many targets
-- ARGV 23 letters          how many dead letters
-- ARGV 24 emits            how many emits
-- ARGV 25 orders           how many effects
-- ARGV 26 transitions      how many journal entries
-- ARGV 27 raises           how many counters
-- ARGV 28 others           how many directives of other kinds
-- ARGV 29 passed           entries that the cursor passes
-- ARGV ... lists           kind keys n, word.. (of others) | target | entry reason error attempts n field.. | target no (0: to subscribers), n, field.. |
--                          id name args timeout retries idempotent backoff queue traceparent tracestate |
--                          entry version directives digest outcome signal type at_ms source data n word.. |
--                          counter, by
-- REPLY ok <landed before> <blocked> <held>
-- REPLY corrupt <key> <why>
-- REPLY refused fenced
-- REPLY refused conflict <version> <cursor>
-- REPLY refused directive <entry> <reason> <why>
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
-- INCLUDE mailboxes
-- INCLUDE replies
-- INCLUDE dead_letters
-- INCLUDE other_kinds
-- INCLUDE journal
-- INCLUDE moved_on
local agent = KEYS[1]
local mailbox = KEYS[2]
local outbox = KEYS[3]
local dead = KEYS[4]
local journal = KEYS[5]
local fate = KEYS[6]
local counters = KEYS[7]
local events = KEYS[8]
local held = KEYS[9]
local effects = KEYS[10]
local bell = KEYS[11]
local base_version, base_cursor, version, cursor = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local targets, letters, emits = tonumber(ARGV[22]), tonumber(ARGV[23]), tonumber(ARGV[24])
local orders, transitions, raises = tonumber(ARGV[25]), tonumber(ARGV[26]), tonumber(ARGV[27])
local at = 29

-- Each look at a type costs half a microsecond: at what this commit writes.
local wrong = corrupt({agent, 'hash', mailbox, 'stream', journal, 'stream'})
if not wrong and (emits + letters + orders > 0 or ARGV[28] ~= '0') then wrong = corrupt({outbox, 'stream', dead, 'stream', fate, 'hash'}) end
if wrong then return wrong end
local record = redis.call('HMGET', agent, 'incarnation', 'owner', 'version', 'cursor', 'trying', 'careful_until',
  'blocked', 'status', 'birth', 'dropped', 'handled')
if ARGV[3] == '' or record[1] ~= ARGV[2] or record[2] ~= ARGV[3] then return {'refused', 'fenced'} end
if not record[3] or not is_id(record[4]) then return {'corrupt', agent, 'has no readable version or cursor'} end
if record[3] ~= base_version or record[4] ~= base_cursor then
  if record[3] == version and record[4] == cursor then return {'ok', '1', record[7] or '0', '0'} end
  return {'refused', 'conflict', record[3], record[4]}
end
-- A signal of the batch gave way to a newer one while it was in hand: it is a dead letter, the batch does not stand.
local dropped = record[10]
if dropped and is_id(dropped) and older(base_cursor, dropped)
  and #redis.call('XRANGE', mailbox, '(' .. base_cursor, cursor) ~= tonumber(ARGV[29]) then
  return {'refused', 'conflict', record[3], record[4]}
end
if emits > 0 then wrong = corrupt({held, 'zset'}) end
if orders > 0 then
  for _, queue in ipairs({'', '-async'}) do wrong = wrong or corrupt({effects .. queue, 'zset', bell .. queue, 'list'}) end
end
for i = 1, orders do
  wrong = wrong or corrupt({KEYS[11 + 3 * targets + i], 'hash'})
end
if wrong then return wrong end
if emits + orders > 0 and exhausted(last_id(outbox)) then return {'corrupt', outbox, 'has used up its ids'} end
if emits + letters > 0 and exhausted(last_id(dead)) then return {'corrupt', dead, 'has used up its ids'} end

local now = now_ms()
local grave = {dead = dead, fate = fate, events = events, counters = counters, agent = ARGV[1], incarnation = ARGV[2],
  type = ARGV[11], max_events = ARGV[20]}
local work = {agent = ARGV[1], key = agent, type = ARGV[11], birth = record[9] or '', incarnation = ARGV[2], now = now,
  counters = counters, events = events, max_events = ARGV[20], grave = grave, opened = {}, version = base_version, cursor = cursor,
  routes = {}, reached = 0}
local kinds, others = ARGV[28] ~= '0' and other_kinds(), nil
if kinds then
  work.prefix = kinds.prefix_of(agent, ARGV[1])
  others, at = kinds.read(tonumber(ARGV[28]), at, 11 + 3 * targets + orders)
  wrong = kinds.check(others, work)
  if wrong then return wrong end
end
local bounds = {max_mailbox = tonumber(ARGV[17]), max_dead = tonumber(ARGV[18])}
local boxes, named = {}, {}
work.boxes = named
local function look_at_target(name, target, its_mailbox, its_dead)
  local own = name == ARGV[1]
  local box = look_at_mailbox(target, its_mailbox, its_dead, bounds, now, own and cursor or nil, work.opened[name])
  if own then box.room = box.room + math.min(ARGV[9] + ARGV[10], box.length) end
  box.name = name
  box.held = tonumber(redis.call('HGET', agent, 'held:' .. name) or '0') or 0
  named[name] = box
  return box
end
for i = 1, targets do
  local key = 12 + 3 * (i - 1)
  boxes[i] = look_at_target(ARGV[at + i], KEYS[key], KEYS[key + 1], KEYS[key + 2])
end
at = at + targets
for _, route in pairs(work.routes) do
  for i = 1, #route <= route.bound and #route or 0 do
    local name, p = route[i].agent, work.prefix
    if not named[name] then look_at_target(name, p .. 'agent:' .. name, p .. 'mailbox:' .. name, p .. 'dead:' .. name) end
  end
end

-- All is read and checked: from here on everything is written.
local handled = added(record[11], ARGV[9])
if ARGV[12] == '1' then
  redis.call('HSET', agent, 'state', ARGV[13], 'schema', ARGV[14], 'version', version, 'cursor', cursor, 'handled', handled)
else
  redis.call('HSET', agent, 'version', version, 'cursor', cursor, 'handled', handled)
end
end_care(agent, record[6] or '', record[5] or '', cursor)
if ARGV[15] == '1' then redis.call('HSET', agent, 'last_error', ARGV[16]) end
if ARGV[10] ~= '0' then redis.pcall('HINCRBY', agent, 'failed', ARGV[10]) end
if work.keeps then
  work.keeps()
elseif ARGV[8] ~= '' then
  redis.call('XTRIM', mailbox, 'MINID', '=', ARGV[8])
else
  redis.call('XTRIM', mailbox, 'MAXLEN', '=', 0)
end

local function take_fields(into)
  local n = tonumber(ARGV[at + 1])
  for i = at + 2, at + 1 + n do into[#into + 1] = ARGV[i] end
  at = at + 1 + n
  return into
end

for _ = 1, letters do
  local entry, reason, error, attempts = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  at = at + 4
  bury(grave, now, entry, reason, error, attempts, take_fields({}))
end

if kinds then kinds.write(others, work, true) end
local holding = 0
local out
if emits > 0 then
  out = {work = work, boxes = named, grave = grave, into = {prefix = work.prefix, events = events, counters = counters,
    max_events = ARGV[20], max_dead = bounds.max_dead, now = now}}
  function out.hold(box, fields)
    box.held = box.held + 1
    holding = holding + 1
    redis.call('XADD', outbox, '*', 'kind', 'emit', 'target', box.name, 'held_ms', now, unpack(fields))
    redis.call('HSET', agent, 'held:' .. box.name, box.held)
  end
  function out.put(box, fields)
    with_field(fields, 'at_ms', now, function(with) put_in_mailbox(box, with) end)
  end
end
for _ = 1, emits do
  local box = boxes[tonumber(ARGV[at + 1])]
  at = at + 1
  local fields = take_fields({})
  if not box then
    if kinds then kinds.publish(out, fields) end
  elseif box.gone then
    with_field(fields, 'target', box.name, function(with) bury(grave, now, '', box.gone, '', 0, with) end)
  elseif box.held > 0 or box.room <= 0 then
    out.hold(box, fields)
  else
    out.put(box, fields)
  end
end
if holding > 0 then
  redis.call('ZADD', held, 'NX', now, ARGV[1])
  count(counters, 'emits_held_total|type=' .. ARGV[11], holding)
end

local ringing = {}
for i = 1, orders do
  local id, queue = ARGV[at + 1], ARGV[at + 8]
  local entry = redis.call('XADD', outbox, '*', 'kind', 'effect', 'effect', id, 'name', ARGV[at + 2], 'args', ARGV[at + 3],
    'at_ms', now, 'timeout_ms', ARGV[at + 4], 'retries', ARGV[at + 5], 'idempotent', ARGV[at + 6], 'backoff_ms', ARGV[at + 7])
  redis.call('HSET', KEYS[11 + 3 * targets + i], 'agent', ARGV[1], 'entry', entry, 'birth', record[9] or '', 'name', ARGV[at + 2],
    'status', 'pending', 'attempts', 0, 'kills', 0, 'due_ms', now, 'timeout_ms', ARGV[at + 4], 'idempotent', ARGV[at + 6], 'queue', queue, 'traceparent', ARGV[at + 9])
  if ARGV[at + 10] ~= '' then redis.call('HSET', KEYS[11 + 3 * targets + i], 'tracestate', ARGV[at + 10]) end
  redis.call('ZADD', effects .. queue, now, id)
  ringing[queue] = true
  at = at + 10
end
for queue in pairs(ringing) do
  if redis.call('LLEN', bell .. queue) == 0 then redis.call('LPUSH', bell .. queue, '1') end
end

if kinds then kinds.write(others, work, false) end

at = write_journal(journal, transitions, at, ARGV[21]) or journal_end(transitions, at)

for _ = 1, raises do
  count(counters, ARGV[at + 1], ARGV[at + 2])
  at = at + 2
end

local blocked = record[7] == '1'
if holding + orders > 0 and redis.call('XLEN', outbox) > tonumber(ARGV[19]) then
  blocked = true
  redis.call('HSET', agent, 'blocked', '1', 'outbox_bound', ARGV[19])
  if record[8] == 'running' then redis.call('HSET', agent, 'status', 'blocked') end
end
return {'ok', '0', blocked and '1' or '0', tostring(holding)}
