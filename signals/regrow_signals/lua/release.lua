-- release: the owner ends cleanly: nothing was in its hands, so the next life need not be careful.
-- KEYS 1 agent hash    the agent's record
-- ARGV 1 incarnation   of the owner
-- ARGV 2 token         of the owner
-- ARGV 3 reason        why it ends
-- REPLY ok
-- REPLY corrupt <key> <why>
-- REPLY refused fenced
-- INCLUDE corrupt
-- INCLUDE fence
local agent = KEYS[1]

local wrong = corrupt({agent, 'hash'})
if wrong then return wrong end
if not is_owner(agent, ARGV[1], ARGV[2]) then return {'refused', 'fenced'} end
redis.call('HSET', agent, 'clean', '1', 'status', 'stopping', 'exit_reason', ARGV[3])
return {'ok'}
