-- trying: the owner notes which signal it is about to try, so that a death in it can be charged to that signal.
-- KEYS 1 agent hash    the agent's record
-- KEYS 2 mailbox stream  where the signal lies: it may have given way to a newer one
-- ARGV 1 incarnation   of the owner
-- ARGV 2 token         of the owner
-- ARGV 3 entry         the signal's acceptance id
-- ARGV 4 attempts      charged so far
-- ARGV 5 kills         charged so far
-- REPLY ok
-- REPLY corrupt <key> <why>
-- REPLY refused fenced | conflict
-- INCLUDE corrupt
-- INCLUDE fence
local agent = KEYS[1]
local mailbox = KEYS[2]

local wrong = corrupt({agent, 'hash', mailbox, 'stream'})
if wrong then return wrong end
if not is_owner(agent, ARGV[1], ARGV[2]) then return {'refused', 'fenced'} end
if #redis.call('XRANGE', mailbox, ARGV[3], ARGV[3]) == 0 then return {'refused', 'conflict'} end
redis.call('HSET', agent, 'trying', ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. ARGV[5])
return {'ok'}
