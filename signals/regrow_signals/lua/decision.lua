-- decision: one event is one step: all that the leader decided about it, or nothing.
-- KEYS 1 leader string        must hold our token
-- KEYS 2 exits stream         the watchdog's mailbox: the entries of the event are deleted
-- KEYS 3 agents zset          registered agents
-- KEYS 4 nodes zset           nodes by their last beat
-- KEYS 5 supervisors set      paths of all supervisors
-- KEYS 6 counters hash        what metrics are made of
-- KEYS 7 events stream        life events
-- KEYS 8 classes set          placement classes of pooled agents
-- KEYS 9 class_bell list      wakes slots for a class that is new
-- KEYS ... others mixed       every other key that the plan names
-- ARGV 1 token                of the leader
-- ARGV 2 max_events           cap of the events
-- ARGV 3 plan                 JSON, as decisions.py makes it; strings only, so that cjson changes nothing
-- REPLY ok <Redis ms>
-- REPLY corrupt <key> <why>
-- REPLY refused not_leader
-- REPLY refused conflict <what>
-- REPLY refused not_idle <agent>
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
-- INCLUDE exits
-- INCLUDE subscriptions
-- INCLUDE mailboxes
-- INCLUDE register
-- INCLUDE timer_keys
-- INCLUDE family
-- INCLUDE notices
-- INCLUDE free_claims
local leader = KEYS[1]
local exits = KEYS[2]
local agents = KEYS[3]
local nodes = KEYS[4]
local supervisors = KEYS[5]
local counters = KEYS[6]
local events = KEYS[7]
local classes = KEYS[8]
local class_bell = KEYS[9]
local plan = cjson.decode(ARGV[3])

local types = {leader, 'string', exits, 'stream', agents, 'zset', nodes, 'zset', supervisors, 'set', classes, 'set',
  class_bell, 'list'}
local function expect(key, kind)
  types[#types + 1] = key
  types[#types + 1] = kind
end
for _, write in ipairs(plan.supervisors) do expect(write.key, 'hash') end
for _, new in ipairs(plan.register) do expect(new.key, 'hash') end
for _, bond in ipairs(plan.bonds) do expect(bond.key, 'hash') end
for _, update in ipairs(plan.updates) do expect(update.key, 'hash') end
for _, exit in ipairs(plan.lost) do expect(exit.key, 'hash') end
for _, key in ipairs(plan.restarts) do expect(key, 'hash') end
for _, order in ipairs(plan.orders) do
  expect(order.control, 'stream')
  expect(order.node_key, 'hash')
  if order.key then expect(order.key, 'hash') end
end
for _, start in ipairs(plan.pooled) do
  expect(start.key, 'hash')
  expect(start.mailbox, 'stream')
end
for _, fence in ipairs(plan.fences) do expect(fence.key, 'hash') end
for _, node in ipairs(plan.lost_nodes) do
  expect(node.key, 'hash')
  expect(node.control, 'stream')
  expect(node.claims, 'set')
end
for _, reply in ipairs(plan.replies) do expect(reply.key, 'list') end
for _, gone in ipairs(plan.deletions) do
  expect(gone.key, 'hash')
  for _, name in ipairs({'mailbox', 'outbox', 'dead'}) do expect(gone[name], 'stream') end
  expect(gone.held, 'zset')
  expect(gone.timers_of, 'set')
end
local wrong = corrupt(types)
if wrong then return wrong end

if ARGV[1] == '' or redis.call('GET', leader) ~= ARGV[1] then return {'refused', 'not_leader'} end
for _, entry in ipairs(plan.exits_entries) do
  if #redis.call('XRANGE', exits, entry, entry) == 0 then
    return {'refused', 'conflict', 'exits entry ' .. entry .. ' is gone'}
  end
end
for _, write in ipairs(plan.supervisors) do
  local version = redis.call('HGET', write.key, 'version') or '0'
  if version ~= write.base then
    return {'refused', 'conflict', 'supervisor ' .. write.path .. ' is at version ' .. version}
  end
end
local registered = {}
for _, new in ipairs(plan.register) do registered[new.key] = '0' end
for _, exit in ipairs(plan.lost) do
  local current = redis.call('HGET', exit.key, 'incarnation')
  if current and current ~= exit.incarnation then
    return {'refused', 'conflict', exit.agent .. ' is at incarnation ' .. current}
  end
end
-- Why this life cannot begin; nil if it can.
local function cannot_start(start)
  local current = redis.call('HGET', start.key, 'incarnation') or registered[start.key]
  if not current and redis.call('EXISTS', start.key) == 0 then
    return {'refused', 'conflict', start.agent .. ' is not registered'}
  end
  if not tonumber(current or '') then return {'corrupt', start.key, 'has an unreadable incarnation'} end
  if tonumber(current) >= tonumber(start.incarnation) then
    return {'refused', 'conflict', start.agent .. ' is at incarnation ' .. current}
  end
  local version = start.fresh and redis.call('EXISTS', start.key) == 1 and (redis.call('HGET', start.key, 'version') or '')
  if version and not (string.match(version, '^%d+$') and #version < 16) then
    return {'corrupt', start.key, 'has an unreadable version'}
  end
end
for _, order in ipairs(plan.orders) do
  wrong = order.key and cannot_start(order)
  if wrong then return wrong end
  if exhausted(last_id(order.control)) then return {'corrupt', order.control, 'has used up its ids'} end
end
for _, start in ipairs(plan.pooled) do
  wrong = cannot_start(start)
  if wrong then return wrong end
end

local ending = {}
for _, exit in ipairs(plan.lost) do ending[exit.key] = true end
for _, gone in ipairs(plan.deletions) do
  local record = redis.call('HMGET', gone.key, 'owner', 'ended', 'incarnation')
  local lives = (record[1] or '') ~= '' and record[2] ~= record[3] and not ending[gone.key]
  local left = redis.call('XLEN', gone.mailbox) + redis.call('XLEN', gone.outbox) + redis.call('XLEN', gone.dead)
    + redis.call('SCARD', gone.timers_of)
  gone.stays = lives or left > 0
  if gone.stays and gone.why == 'idle' then return {'refused', 'not_idle', gone.agent} end
end

-- All is read and checked: from here on everything is written.
local now = now_ms()
local function set(key, flat)
  for i = 1, #flat, 2 do redis.call('HSET', key, flat[i], flat[i + 1]) end
end
for _, write in ipairs(plan.supervisors) do
  if write.remove then
    redis.call('DEL', write.key)
    redis.call('SREM', supervisors, write.path)
  else
    for _, field in ipairs(write.delete) do redis.call('HDEL', write.key, field) end
    set(write.key, write.set)
    redis.call('HSET', write.key, 'version', string.format('%.0f', tonumber(write.base) + 1))
    redis.call('SADD', supervisors, write.path)
  end
end
for _, update in ipairs(plan.updates) do
  if update.unsubscribe and redis.call('EXISTS', update.key) == 1 then
    set_spec_subscriptions(prefix_of(update.key, update.unsubscribe), update.unsubscribe, {}, {}, now)
  end
end
for _, new in ipairs(plan.register) do
  register(new.key, agents, new.agent, new, new.mailbox, now)
end
for _, exit in ipairs(plan.lost) do
  if redis.call('EXISTS', exit.key) == 1 and record_exit(exit.key, exit, now) == 'recorded' then
    count(counters, 'exits_total|reason=' .. exit.kind, 1)
    event(events, ARGV[2], now, 'exited', 'agent', exit.agent, 'incarnation', exit.incarnation, 'node', exit.node,
      'supervisor', redis.call('HGET', exit.key, 'supervisor') or '', 'reason', exit.reason)
  end
end
for _, update in ipairs(plan.updates) do
  local current = redis.call('HGET', update.key, 'incarnation')
  if current and (not update.incarnation or update.incarnation == current) then set(update.key, update.fields) end
end
local function begin_fresh(start)
  if not start.fresh then return end
  redis.call('HSET', start.key, 'state', start.fresh.state, 'schema', start.fresh.schema)
  redis.call('HINCRBY', start.key, 'version', 1)
  if (redis.call('HGET', start.key, 'postponed') or '0') ~= '0' then redis.call('HSET', start.key, 'rewound', '0-0') end
end
for _, fence in ipairs(plan.fences) do
  local record = redis.call('HMGET', fence.key, 'incarnation', 'ended', 'supervisor')
  if record[1] == fence.incarnation and record[2] ~= fence.incarnation then
    redis.call('HSET', fence.key, 'owner', '', 'ended', fence.incarnation, 'worker', '', 'pid', '', 'queued', '', 'clean', '1',
      'exit_reason', fence.reason)
    count(counters, 'exits_total|reason=' .. fence.reason, 1)
    event(events, ARGV[2], now, 'exited', 'agent', fence.agent, 'incarnation', fence.incarnation, 'supervisor', record[3] or '',
      'reason', fence.reason)
  end
end
for _, order in ipairs(plan.orders) do
  if order.key then
    redis.call('HSET', order.key, 'incarnation', order.incarnation, 'owner', '', 'pid', '', 'status', 'starting',
      'node', order.node, 'start_ms', now, 'ended', '', 'isolation', 'process')
    set(order.key, order.bounds)
    begin_fresh(order)
  end
  redis.call('XADD', order.control, '*', unpack(order.fields))
  -- A node that has gone reads no orders: its stream must not stay behind.
  if redis.call('EXISTS', order.node_key) == 0 then redis.call('PEXPIRE', order.control, 600000) end
end
for _, start in ipairs(plan.pooled) do
  redis.call('HSET', start.key, 'incarnation', start.incarnation, 'owner', '', 'pid', '', 'status', 'idle', 'node', '',
    'worker', '', 'start_ms', now, 'started_ms', now, 'ended', '', 'isolation', 'pool', 'class', start.class, 'queued', '')
  set(start.key, start.fields)
  begin_fresh(start)
  if redis.call('SADD', classes, start.class) == 1 then
    -- Slots that wait do not listen for it yet.
    redis.call('DEL', class_bell)
    for _ = 1, 32 do redis.call('LPUSH', class_bell, start.class) end
  end
  event(events, ARGV[2], now, 'started', 'agent', start.agent, 'incarnation', start.incarnation,
    'supervisor', redis.call('HGET', start.key, 'supervisor') or '', 'version', redis.call('HGET', start.key, 'version') or '')
  if has_work(start.key) then make_ready(start.key) end
end
for _, node in ipairs(plan.lost_nodes) do
  free_claims(node.prefix, node.claims, node.node, '', '', '0', now)
  redis.call('DEL', node.claims)
  if redis.call('DEL', node.key) == 1 then
    count(counters, 'nodes_lost_total', 1)
    event(events, ARGV[2], now, 'node_lost', 'node', node.node)
  end
  redis.call('DEL', node.control)
  redis.call('ZREM', nodes, node.node)
end
for _, key in ipairs(plan.restarts) do
  if redis.call('EXISTS', key) == 1 then redis.pcall('HINCRBY', key, 'restarts', 1) end
end
for _, bond in ipairs(plan.bonds) do
  if redis.call('EXISTS', bond.key) == 1 then
    if bond.holds == '1' then
      bind_child(bond.key, bond.tag, bond.child)
    else
      unbind_child(bond.key, bond.tag, bond.child)
    end
  end
end
local desk = {prefix = string.sub(exits, 1, -6), events = events, max_events = ARGV[2], room = tonumber(plan.notice_room),
  bounds = {max_mailbox = tonumber(plan.max_mailbox), max_dead = 0}}
for _, notice in ipairs(plan.notices) do put_notice(desk, notice.agent, notice.type, notice.fields, now) end
for _, down in ipairs(plan.downs) do tell_monitors(desk, down.agent, down.type, down.data, now) end
local function delete(gone)
  local path = redis.call('HGET', gone.key, 'supervisor') or ''
  unsubscribe_all(prefix_of(gone.key, gone.agent), gone.agent)
  forget_timers(gone.key)
  for _, name in ipairs({'key', 'mailbox', 'outbox', 'dead', 'journal', 'seen', 'seen_old', 'fate'}) do
    redis.call('DEL', gone[name])
  end
  redis.call('ZREM', agents, gone.agent)
  redis.call('ZREM', gone.held, gone.agent)
  event(events, ARGV[2], now, 'deleted', 'agent', gone.agent, 'supervisor', path, 'reason', gone.why)
end
for _, gone in ipairs(plan.deletions) do
  if not gone.stays then delete(gone) end
end
for _, reply in ipairs(plan.replies) do
  redis.call('RPUSH', reply.key, reply.json)
  redis.call('PEXPIRE', reply.key, 60000)
end
for _, entry in ipairs(plan.exits_entries) do redis.call('XDEL', exits, entry) end
for _, raise in ipairs(plan.counters) do count(counters, raise[1], raise[2]) end
for _, flat in ipairs(plan.events) do
  redis.pcall('XADD', events, 'MAXLEN', '~', ARGV[2], '*', 'at_ms', now, unpack(flat))
end
return {'ok', string.format('%.0f', now)}
