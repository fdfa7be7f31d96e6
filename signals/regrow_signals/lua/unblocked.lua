-- unblocked: may the owner take signals again? Looks at the outbox itself, should nobody have told.
-- KEYS 1 agent hash      the agent's record
-- KEYS 2 outbox stream   its effects and held emits
-- ARGV 1 incarnation     of the owner
-- ARGV 2 token           of the owner
-- REPLY ok <1 when free>
-- REPLY corrupt <key> <why>
-- REPLY refused fenced
-- INCLUDE corrupt
-- INCLUDE fence
-- INCLUDE unblock
local agent = KEYS[1]
local outbox = KEYS[2]

local wrong = corrupt({agent, 'hash', outbox, 'stream'})
if wrong then return wrong end
if not is_owner(agent, ARGV[1], ARGV[2]) then return {'refused', 'fenced'} end
return {'ok', unblock(agent, outbox) and '1' or '0'}
