-- effect_cancel: an operator cancels an agent's effects by their tag, as the agent's own CancelEffect does.
-- KEYS 1 tags hash         of the agent's effects
-- KEYS 2 cancelling set    effects that are to stop
-- KEYS 3 effects zset      effects by due time
-- KEYS 4 agent hash        the agent's record
-- ARGV 1 prefix            of all keys of the namespace: effects are known only from the tags
-- ARGV 2 agent_id          the agent
-- ARGV 3 tag               which
-- ARGV 4 name              of the effects that are meant; '' for all
-- REPLY ok <settled as cancelled> <told to stop>
-- REPLY corrupt <key> <why>
-- REPLY refused no_such_agent
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
-- INCLUDE mailboxes
-- INCLUDE cancel_tagged
local tags = KEYS[1]
local cancelling = KEYS[2]
local effects = KEYS[3]
local agent = KEYS[4]

local wrong = corrupt({tags, 'hash', cancelling, 'set', effects, 'zset', effects .. '-async', 'zset', agent, 'hash'})
if wrong then return wrong end
if redis.call('EXISTS', agent) == 0 then return {'refused', 'no_such_agent'} end
local waiting, stopping = cancel_tagged(ARGV[1], ARGV[2], ARGV[3], ARGV[4], now_ms())
return {'ok', tostring(waiting), tostring(stopping)}
