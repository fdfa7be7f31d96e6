-- pool_release: a slot lets go of agents that it is done with: at rest, or back at the end of their queue with more to do.
-- KEYS 1 claims set        what the node's slots hold: slot and agent
-- ARGV 1 prefix            of all keys of the namespace
-- ARGV 2 slot              number of the slot's process on this node
-- ARGV ... held            agent, incarnation and token in turn
-- REPLY ok <released>
-- REPLY corrupt <key> <why>
-- INCLUDE corrupt
-- INCLUDE fence
-- INCLUDE let_go
local claims = KEYS[1]
local prefix, slot = ARGV[1], ARGV[2]

local wrong = corrupt({claims, 'set'})
if wrong then return wrong end
local released = 0
for i = 3, #ARGV, 3 do
  local id = ARGV[i]
  local agent = prefix .. 'agent:' .. id
  redis.call('SREM', claims, slot .. ' ' .. id)
  if not corrupt({agent, 'hash', prefix .. 'mailbox:' .. id, 'stream'}) and is_owner(agent, ARGV[i + 1], ARGV[i + 2]) then
    let_go(agent, '1')
    released = released + 1
  end
end
return {'ok', tostring(released)}
