-- trying: the owner notes which signal it is about to try, so that a death in it can be charged to that signal.
-- KEYS 1 agent hash    the agent's record
-- ARGV 1 incarnation   of the owner
-- ARGV 2 token         of the owner
-- ARGV 3 entry         the signal's acceptance id
-- ARGV 4 attempts      charged so far
-- ARGV 5 kills         charged so far
-- REPLY ok
-- REPLY corrupt <key> <why>
-- REPLY refused fenced
-- INCLUDE corrupt
-- INCLUDE fence
local agent = KEYS[1]

local wrong = corrupt({agent, 'hash'})
if wrong then return wrong end
if not is_owner(agent, ARGV[1], ARGV[2]) then return {'refused', 'fenced'} end
redis.call('HSET', agent, 'trying', ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. ARGV[5])
return {'ok'}
