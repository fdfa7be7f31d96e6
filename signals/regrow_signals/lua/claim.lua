-- claim: a started process becomes the owner of its agent; its own repeat is answered alike and writes nothing.
-- KEYS 1 agent hash        the agent's record
-- KEYS 2 mailbox stream    its mailbox: whose last id bounds the careful time
-- KEYS 3 exits stream      hears of the start
-- KEYS 4 counters hash     death-to-running: each falls into one bucket; fresh processes of a life
-- KEYS 5 events stream     life events
-- ARGV 1 agent_id          the agent
-- ARGV 2 incarnation       as ordered
-- ARGV 3 token             fresh, random
-- ARGV 4 node              where it runs
-- ARGV 5 pid               of the process
-- ARGV 6 max_events        cap of the events
-- ARGV 7 recycled          why this life's process before gave way to this one, or ''
-- REPLY ok <fields of parts/loaded.lua>
-- REPLY corrupt <key> <why>
-- REPLY refused fenced
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
-- INCLUDE loaded
-- INCLUDE take_up
local agent = KEYS[1]
local mailbox = KEYS[2]
local exits = KEYS[3]
local counters = KEYS[4]
local events = KEYS[5]

local wrong = corrupt({agent, 'hash', mailbox, 'stream', exits, 'stream'})
if wrong then return wrong end
local record = redis.call('HMGET', agent, 'incarnation', 'owner', 'ended', 'clean', 'charge', 'exit_ms', 'supervisor', 'pid')
local owner = record[2] or ''
if ARGV[3] == '' or record[1] ~= ARGV[2] or record[3] == ARGV[2] then return {'refused', 'fenced'} end
if owner ~= '' and owner ~= ARGV[3] then return {'refused', 'fenced'} end
local reply = loaded(agent)
if reply[1] == 'ok' and owner == ARGV[3] and record[8] ~= ARGV[5] then -- a fresh process of this life
  redis.call('HSET', agent, 'pid', ARGV[5])
  if ARGV[7] ~= '' then count(counters, 'workers_recycled_total|type=' .. reply[2] .. '|reason=' .. ARGV[7], 1) end
end
if reply[1] ~= 'ok' or owner == ARGV[3] then return reply end
if exhausted(last_id(exits)) then return {'corrupt', exits, 'has used up its ids'} end
wrong = take_up(agent, mailbox, reply, record[4], record[5])
if wrong then return wrong end

local now = now_ms()
redis.call('HSET', agent, 'owner', ARGV[3], 'node', ARGV[4], 'pid', ARGV[5], 'started_ms', now, 'clean', '0', 'charge', 'none',
  'careful_until', reply[8], 'trying', reply[9], 'status', reply[13] == '1' and 'blocked' or 'running')
redis.call('XADD', exits, '*', 'kind', 'started', 'agent', ARGV[1], 'incarnation', ARGV[2], 'node', ARGV[4], 'pid', ARGV[5],
  'supervisor', record[7] or '', 'at_ms', now)
event(events, ARGV[6], now, 'started', 'agent', ARGV[1], 'incarnation', ARGV[2], 'node', ARGV[4],
  'supervisor', record[7] or '', 'version', reply[6])
count_recovery(counters, record[4], record[6], now)
return reply
