-- Is this incarnation with this token the agent's owner? Equality of both, never an order.
local function is_owner(agent, incarnation, token)
  local record = redis.call('HMGET', agent, 'incarnation', 'owner')
  return token ~= '' and record[1] == incarnation and record[2] == token
end
