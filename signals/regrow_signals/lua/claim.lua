-- claim: a started process becomes the owner of its agent; its own repeat is answered alike and writes nothing.
-- KEYS 1 agent hash        the agent's record
-- KEYS 2 mailbox stream    its mailbox: whose last id bounds the careful time
-- KEYS 3 exits stream      hears of the start
-- KEYS 4 counters hash     death-to-running: each falls into one bucket
-- KEYS 5 events stream     life events
-- ARGV 1 agent_id          the agent
-- ARGV 2 incarnation       as ordered
-- ARGV 3 token             fresh, random
-- ARGV 4 node              where it runs
-- ARGV 5 pid               of the process
-- ARGV 6 max_events        cap of the events
-- REPLY ok <fields of parts/loaded.lua>
-- REPLY corrupt <key> <why>
-- REPLY refused fenced
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
-- INCLUDE loaded
local agent = KEYS[1]
local mailbox = KEYS[2]
local exits = KEYS[3]
local counters = KEYS[4]
local events = KEYS[5]
local BOUNDS = {'0.005', '0.01', '0.025', '0.05', '0.1', '0.25', '0.5', '1', '2.5', '5', '10', '30', '60', '+Inf'}

local wrong = corrupt({agent, 'hash', mailbox, 'stream', exits, 'stream'})
if wrong then return wrong end
local record = redis.call('HMGET', agent, 'incarnation', 'owner', 'ended', 'clean', 'charge', 'exit_ms', 'supervisor')
local owner = record[2] or ''
if ARGV[3] == '' or record[1] ~= ARGV[2] or record[3] == ARGV[2] then return {'refused', 'fenced'} end
if owner ~= '' and owner ~= ARGV[3] then return {'refused', 'fenced'} end
local reply = loaded(agent)
if reply[1] == 'ok' and owner == ARGV[3] then redis.call('HSET', agent, 'pid', ARGV[5]) end -- a fresh process of this life
if reply[1] ~= 'ok' or owner == ARGV[3] then return reply end
local cursor, careful, trying = reply[7], reply[8], reply[9]
local entry, attempts, kills = string.match(trying, '^(%d+%-%d+) (%d+) (%d+)$')
if trying ~= '' and not entry then return {'corrupt', agent, 'has an unreadable field trying'} end
if careful ~= '' and not is_id(careful) then return {'corrupt', agent, 'has an unreadable field careful_until'} end
if exhausted(last_id(exits)) then return {'corrupt', exits, 'has used up its ids'} end
if record[4] ~= '1' then careful = last_id(mailbox) end
if careful ~= '' and not older(cursor, careful) then careful = '' end
if entry and older(cursor, entry) then
  if record[5] == 'attempt' then attempts = attempts + 1 end
  if record[5] == 'kill' then kills = kills + 1 end
  trying = entry .. ' ' .. attempts .. ' ' .. kills
  if careful == '' or older(careful, entry) then careful = entry end
else
  trying = ''
  -- What is tried first is noted here: a round trip less. Not for a blocked agent, which may wait long before it tries.
  local first = careful ~= '' and reply[13] ~= '1' and redis.call('XRANGE', mailbox, '(' .. cursor, '+', 'COUNT', 1)[1]
  if first and not older(careful, first[1]) then trying = first[1] .. ' 0 0' end
end

local now = now_ms()
reply[8], reply[9] = careful, trying
redis.call('HSET', agent, 'owner', ARGV[3], 'node', ARGV[4], 'pid', ARGV[5], 'started_ms', now, 'clean', '0', 'charge', 'none',
  'careful_until', careful, 'trying', trying, 'status', reply[13] == '1' and 'blocked' or 'running')
redis.call('XADD', exits, '*', 'kind', 'started', 'agent', ARGV[1], 'incarnation', ARGV[2], 'node', ARGV[4], 'pid', ARGV[5],
  'supervisor', record[7] or '', 'at_ms', now)
event(events, ARGV[6], now, 'started', 'agent', ARGV[1], 'incarnation', ARGV[2], 'node', ARGV[4],
  'supervisor', record[7] or '', 'version', reply[6])
local exit_ms = tonumber(record[6])
if record[4] ~= '1' and exit_ms and exit_ms <= now then
  local bucket = 1
  while bucket < #BOUNDS and now - exit_ms > tonumber(BOUNDS[bucket]) * 1000 do bucket = bucket + 1 end
  count(counters, 'recovery_seconds_bucket|le=' .. BOUNDS[bucket], 1)
  count(counters, 'recovery_seconds_sum_us', string.format('%.0f', (now - exit_ms) * 1000))
  count(counters, 'recovery_seconds_count', 1)
end
return reply
