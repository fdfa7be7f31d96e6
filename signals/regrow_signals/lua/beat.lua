-- beat: one command for a node and all that moved on it; names the incarnations that are no longer current.
-- KEYS 1 node hash      the node's record; gone when it was declared lost
-- KEYS 2 nodes zset     nodes by their last beat
-- KEYS 3 agents zset    agents by their last beat
-- KEYS ... running hash   one record of each running agent
-- ARGV 1 node_id        the node
-- ARGV 2 load           how many it runs
-- ARGV 3 slots          how many slots it keeps for pooled agents; '' where it keeps none
-- ARGV 4 stuck          how many of them are stuck in one transition
-- ARGV ... lives        agent and incarnation in turn
-- REPLY ok <stale agent> <incarnation> ...
-- REPLY unknown
-- REPLY corrupt <key> <why>
-- INCLUDE now_ms
-- INCLUDE corrupt
local node = KEYS[1]
local nodes = KEYS[2]
local agents = KEYS[3]

local wrong = corrupt({node, 'hash', nodes, 'zset', agents, 'zset'})
if wrong then return wrong end
if redis.call('EXISTS', node) == 0 then return {'unknown'} end

local now = now_ms()
local reply = {'ok'}
for i = 4, #KEYS do
  local agent, incarnation = ARGV[2 * i - 3], ARGV[2 * i - 2]
  -- A record that cannot be read is not a verdict on the process that runs it: it is left alone, and does not beat.
  if not corrupt({KEYS[i], 'hash'}) then
    local record = redis.call('HMGET', KEYS[i], 'incarnation', 'ended')
    if record[1] == incarnation and record[2] ~= incarnation then
      redis.call('ZADD', agents, now, agent)
    else
      reply[#reply + 1] = agent
      reply[#reply + 1] = incarnation
    end
  end
end
redis.call('ZADD', nodes, now, ARGV[1])
redis.call('HSET', node, 'load', ARGV[2], 'beat_ms', now)
if ARGV[3] ~= '' then redis.call('HSET', node, 'slots', ARGV[3], 'stuck', ARGV[4]) end
redis.pcall('HINCRBY', node, 'beats', 1)
return reply
