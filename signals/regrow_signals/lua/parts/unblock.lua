-- INCLUDE ready
-- Frees an agent that waited for its outbox (keys: its record, its outbox) once that is within its bound again.
local function unblock(agent, outbox)
  local record = redis.call('HMGET', agent, 'blocked', 'status', 'outbox_bound', 'isolation', 'owner')
  if record[1] ~= '1' then return true end
  if redis.call('XLEN', outbox) > (tonumber(record[3]) or 1000) then return false end
  redis.call('HSET', agent, 'blocked', '0')
  local waits = record[4] == 'pool' and (record[5] or '') == ''
  if record[2] == 'blocked' then redis.call('HSET', agent, 'status', waits and 'idle' or 'running') end
  if waits and has_work(agent) then make_ready(agent) end
  return true
end
