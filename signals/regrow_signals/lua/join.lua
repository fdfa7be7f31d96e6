-- join: a node of a new id begins; its own repeat writes nothing.
-- KEYS 1 node hash        the node's record
-- KEYS 2 nodes zset       nodes by their last beat
-- KEYS 3 exits stream     the watchdog's mailbox
-- KEYS 4 events stream    life events
-- KEYS 5 classes set      placement classes of pooled agents
-- ARGV 1 node_id          new for each run
-- ARGV 2 kind             worker or effects
-- ARGV 3 host             host name
-- ARGV 4 pid              of the node's process
-- ARGV 5 labels           JSON
-- ARGV 6 types            JSON: type -> {code, schema, handles}
-- ARGV 7 version          of regrow
-- ARGV 8 max_events       cap of the events
-- REPLY ok <1 if there are pooled agents, else 0>
-- REPLY corrupt <key> <why>
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
local node = KEYS[1]
local nodes = KEYS[2]
local exits = KEYS[3]
local events = KEYS[4]
local classes = KEYS[5]

local wrong = corrupt({node, 'hash', nodes, 'zset', exits, 'stream'})
if wrong then return wrong end
local reply = {'ok', tostring(redis.call('EXISTS', classes))}
if redis.call('EXISTS', node) == 1 then return reply end
if exhausted(last_id(exits)) then return {'corrupt', exits, 'has used up its ids'} end

local now = now_ms()
redis.call('HSET', node, 'kind', ARGV[2], 'host', ARGV[3], 'pid', ARGV[4], 'labels', ARGV[5], 'types', ARGV[6],
  'version', ARGV[7], 'status', 'up', 'started_ms', now, 'load', '0', 'beats', '0')
redis.call('ZADD', nodes, now, ARGV[1])
redis.call('XADD', exits, '*', 'kind', 'node', 'node', ARGV[1], 'event', 'joined', 'node_kind', ARGV[2], 'at_ms', now)
event(events, ARGV[8], now, 'node_joined', 'node', ARGV[1], 'detail', ARGV[2] .. ' on ' .. ARGV[3])
return reply
