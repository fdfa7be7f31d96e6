-- node_event: a node says that it drains, or that it has left; a repeat writes nothing.
-- KEYS 1 node hash         the node's record
-- KEYS 2 nodes zset        nodes by their last beat
-- KEYS 3 control stream    orders to it
-- KEYS 4 exits stream      the watchdog's mailbox
-- KEYS 5 events stream     life events
-- ARGV 1 node_id           the node
-- ARGV 2 news              draining or left
-- ARGV 3 max_events        cap of the events
-- REPLY ok
-- REPLY known
-- REPLY corrupt <key> <why>
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
local node = KEYS[1]
local nodes = KEYS[2]
local control = KEYS[3]
local exits = KEYS[4]
local events = KEYS[5]

local wrong = corrupt({node, 'hash', nodes, 'zset', control, 'stream', exits, 'stream'})
if wrong then return wrong end
local record = redis.call('HMGET', node, 'kind', 'status')
if redis.call('EXISTS', node) == 0 or record[2] == ARGV[2] then return {'known'} end
if exhausted(last_id(exits)) then return {'corrupt', exits, 'has used up its ids'} end

local now = now_ms()
if ARGV[2] == 'left' then
  redis.call('DEL', node, control)
  redis.call('ZREM', nodes, ARGV[1])
else
  redis.call('HSET', node, 'status', ARGV[2])
end
redis.call('XADD', exits, '*', 'kind', 'node', 'node', ARGV[1], 'event', ARGV[2], 'node_kind', record[1] or '', 'at_ms', now)
event(events, ARGV[3], now, 'node_' .. ARGV[2], 'node', ARGV[1])
return {'ok'}
