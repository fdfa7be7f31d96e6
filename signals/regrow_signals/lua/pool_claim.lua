-- pool_claim: a slot takes agents of its classes that have work, each under a token of its own, with what waits for them.
-- KEYS 1 node hash         must be up: what a lost node's slot took, nobody would ever free
-- KEYS 2 claims set        what the node's slots hold: slot and agent
-- KEYS 3 counters hash     death-to-running
-- KEYS ... ready list      queues of the classes that the slot serves, in the order in which they are asked
-- ARGV 1 prefix            of all keys of the namespace: agents are known only from the queues
-- ARGV 2 node              the node
-- ARGV 3 slot              number of the slot's process on this node
-- ARGV 4 pid               of the process
-- ARGV 5 token             fresh, random; an agent's is this and its place
-- ARGV 6 most              agents at most
-- ARGV 7 signals           of an agent at most
-- ARGV 8 bytes             once so much is read, no further agent is taken
-- REPLY ok <waiting> { <agent> <incarnation> <token> <deadline_ms> { <fields of parts/loaded.lua> } <entries> } ...
-- REPLY corrupt <key> <why>
-- REPLY refused node_gone
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE loaded
-- INCLUDE take_up
-- INCLUDE ready
local node = KEYS[1]
local claims = KEYS[2]
local counters = KEYS[3]
local prefix, slot, signals = ARGV[1], ARGV[3], tonumber(ARGV[7])
local most, bytes = tonumber(ARGV[6]), tonumber(ARGV[8])
local FIRST, SMALL, MANY = 10, 65536, 500

local types = {node, 'hash', claims, 'set'}
for i = 4, #KEYS do
  types[#types + 1] = KEYS[i]
  types[#types + 1] = 'list'
end
local wrong = corrupt(types)
if wrong then return wrong end
if redis.call('EXISTS', node) == 0 then return {'refused', 'node_gone'} end
local now = now_ms()
local read, members = 0, {}

local function note_size(entries)
  local size = 0
  for _, entry in ipairs(entries) do
    for _, word in ipairs(entry[2]) do size = size + #word end
  end
  read = read + size
  return size
end

-- A first look at few entries, so that large ones are not read by the hundred.
local function entries_after(mailbox, cursor)
  local entries = redis.pcall('XRANGE', mailbox, '(' .. cursor, '+', 'COUNT', math.min(FIRST, signals))
  if entries.err then return nil end
  if note_size(entries) > SMALL or #entries < FIRST or signals <= FIRST then return entries end
  local more = redis.call('XRANGE', mailbox, '(' .. entries[FIRST][1], '+', 'COUNT', signals - FIRST)
  note_size(more)
  for i = 1, #more do entries[FIRST + i] = more[i] end
  return entries
end

-- What is to be taken next: postponed signals where a change of mode has gone back to them, else those after the cursor.
local function waiting_for(reply, mailbox)
  if reply[21] ~= '' then
    local entries = redis.pcall('XRANGE', mailbox, '(' .. reply[21], reply[7], 'COUNT', math.min(FIRST, signals))
    if entries.err then return nil end
    note_size(entries)
    if #entries > 0 then return entries end
    reply[21] = ''
  end
  return entries_after(mailbox, reply[7])
end

-- All of a record in one look; what the slot is told comes first.
local FIELDS = {}
for i = 1, #LOADED do FIELDS[i] = LOADED[i] end
for _, name in ipairs({'isolation', 'queued', 'owner', 'ended', 'incarnation', 'clean', 'charge', 'exit_ms', 'deadline_ms',
  'class'}) do FIELDS[#FIELDS + 1] = name end
local AT = #LOADED

-- The agent as a slot needs it; unclaimed and with `corrupt` in place of its fields where those cannot be read; nil where
-- it is not to be taken: it left the queue some other way, or was queued anew elsewhere, for another class or schema.
local function take(id, token, queue)
  local agent, mailbox = prefix .. 'agent:' .. id, prefix .. 'mailbox:' .. id
  local record = redis.pcall('HMGET', agent, unpack(FIELDS))
  if record.err or record[AT + 2] ~= '1' or queue_of(record[AT + 10], record[4]) ~= queue then return nil end
  local incarnation, clean, charge = record[AT + 5], record[AT + 6], record[AT + 7]
  if record[AT + 1] ~= 'pool' or (record[AT + 3] or '') ~= '' or record[AT + 4] == incarnation or record[12] == '1' then
    redis.call('HSET', agent, 'queued', '')
    return nil
  end
  local reply = loaded_of(agent, record)
  local entries = reply[1] == 'ok' and waiting_for(reply, mailbox)
  if reply[1] == 'ok' and not entries then reply = corrupt({mailbox, 'stream'}) end
  local unreadable = reply[1] ~= 'ok' and reply or take_up(agent, mailbox, reply, clean, charge)
  if unreadable or #entries == 0 then
    redis.call('HSET', agent, 'queued', '')
    if unreadable then return {id, incarnation, '', '', unreadable, {}} end
    redis.call('HSET', agent, 'status', 'idle')
    return nil
  end
  redis.call('HSET', agent, 'queued', '', 'owner', token, 'worker', ARGV[2] .. '/' .. slot, 'node', ARGV[2], 'pid', ARGV[4],
    'clean', '0', 'status', 'running')
  if clean ~= '1' or charge ~= 'none' or record[7] ~= '' or record[8] ~= '' then
    redis.call('HSET', agent, 'charge', 'none', 'careful_until', reply[8], 'trying', reply[9])
    count_recovery(counters, clean, record[AT + 8], now)
  end
  members[#members + 1] = slot .. ' ' .. id
  for _, field in ipairs(reply) do read = read + #field end
  return {id, incarnation, token, record[AT + 9] or '', reply, entries}
end

local reply, looks = {'ok', '0'}, 4 * most
for i = 4, #KEYS do
  local queue = string.sub(KEYS[i], #prefix + #'ready:' + 1)
  local ids, next = {}, 1
  while #reply - 2 < most and read < bytes and looks > 0 do
    if next > #ids then
      ids, next = redis.call('LPOP', KEYS[i], math.min(most - #reply + 2, looks)) or {}, 1
      if #ids == 0 then break end
    end
    looks = looks - 1
    local taken = take(ids[next], ARGV[5] .. '-' .. #reply, queue)
    next = next + 1
    if taken then reply[#reply + 1] = taken end
  end
  for back = #ids, next, -1 do redis.call('LPUSH', KEYS[i], ids[back]) end
  if redis.call('LLEN', KEYS[i]) > 0 then
    reply[2] = '1'
    ring_for(prefix, queue)
  end
end
for i = 1, #members, MANY do redis.call('SADD', claims, unpack(members, i, math.min(i + MANY - 1, #members))) end
return reply
