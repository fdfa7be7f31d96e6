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
local FIRST, SMALL = 10, 65536

local types = {node, 'hash', claims, 'set'}
for i = 4, #KEYS do
  types[#types + 1] = KEYS[i]
  types[#types + 1] = 'list'
end
local wrong = corrupt(types)
if wrong then return wrong end
if redis.call('EXISTS', node) == 0 then return {'refused', 'node_gone'} end
local now = now_ms()
local read = 0

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
  local entries = redis.call('XRANGE', mailbox, '(' .. cursor, '+', 'COUNT', math.min(FIRST, signals))
  if note_size(entries) > SMALL or #entries < FIRST or signals <= FIRST then return entries end
  local more = redis.call('XRANGE', mailbox, '(' .. entries[FIRST][1], '+', 'COUNT', signals - FIRST)
  note_size(more)
  for i = 1, #more do entries[FIRST + i] = more[i] end
  return entries
end

-- The agent as a slot needs it; unclaimed and with `corrupt` in place of its fields where those cannot be read; nil where
-- it is not to be taken: it left the queue some other way, or was queued anew elsewhere, for another class or schema.
local function take(id, token, queue)
  local agent, mailbox = prefix .. 'agent:' .. id, prefix .. 'mailbox:' .. id
  if corrupt({agent, 'hash'}) then return nil end
  local record = redis.call('HMGET', agent, 'isolation', 'queued', 'owner', 'ended', 'incarnation', 'clean', 'charge', 'exit_ms',
    'deadline_ms', 'blocked', 'class', 'schema')
  if record[2] ~= '1' or queue_of(record[11], record[12]) ~= queue then return nil end
  redis.call('HSET', agent, 'queued', '')
  if record[1] ~= 'pool' or (record[3] or '') ~= '' or record[4] == record[5] or record[10] == '1' then return nil end
  local reply = corrupt({mailbox, 'stream'}) or loaded(agent)
  local unreadable = reply[1] ~= 'ok' and reply or take_up(agent, mailbox, reply, record[6], record[7])
  if unreadable then return {id, record[5], '', '', unreadable, {}} end
  local entries = {}
  if reply[21] ~= '' then
    entries = redis.call('XRANGE', mailbox, '(' .. reply[21], reply[7], 'COUNT', math.min(FIRST, signals))
    note_size(entries)
    if #entries == 0 then reply[21] = '' end
  end
  if #entries == 0 then entries = entries_after(mailbox, reply[7]) end
  if #entries == 0 then
    redis.call('HSET', agent, 'status', 'idle')
    return nil
  end
  redis.call('HSET', agent, 'owner', token, 'worker', ARGV[2] .. '/' .. slot, 'node', ARGV[2], 'pid', ARGV[4],
    'clean', '0', 'charge', 'none', 'careful_until', reply[8], 'trying', reply[9], 'status', 'running')
  redis.call('SADD', claims, slot .. ' ' .. id)
  count_recovery(counters, record[6], record[8], now)
  for _, field in ipairs(reply) do read = read + #field end
  return {id, record[5], token, record[9] or '', reply, entries}
end

local reply, looks = {'ok', '0'}, 4 * most
for i = 4, #KEYS do
  local queue = string.sub(KEYS[i], #prefix + #'ready:' + 1)
  while #reply - 2 < most and read < bytes and looks > 0 do
    local id = redis.call('LPOP', KEYS[i])
    if not id then break end
    looks = looks - 1
    local taken = take(id, ARGV[5] .. '-' .. #reply, queue)
    if taken then reply[#reply + 1] = taken end
  end
  if redis.call('LLEN', KEYS[i]) > 0 then
    reply[2] = '1'
    ring_for(prefix, queue)
  end
end
return reply
