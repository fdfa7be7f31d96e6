-- reload: the owner reads its agent again, after a reconnect or a conflict. Writes nothing.
-- KEYS 1 agent hash    the agent's record
-- ARGV 1 incarnation   of the owner
-- ARGV 2 token         of the owner
-- REPLY ok <fields of parts/loaded.lua>
-- REPLY corrupt <key> <why>
-- REPLY refused fenced
-- INCLUDE corrupt
-- INCLUDE entry_ids
-- INCLUDE loaded
-- INCLUDE fence
local agent = KEYS[1]

local wrong = corrupt({agent, 'hash'})
if wrong then return wrong end
if not is_owner(agent, ARGV[1], ARGV[2]) then return {'refused', 'fenced'} end
return loaded(agent)
