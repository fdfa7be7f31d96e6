-- INCLUDE ready
-- Takes a pooled agent out of a slot's hands, with nothing of it done by halves: `clean` 1 where it was certainly not
-- running when its slot let go. Back to the end of its queue if signals wait.
local function let_go(agent, clean)
  redis.call('HSET', agent, 'owner', '', 'worker', '', 'pid', '', 'clean', clean, 'status',
    redis.call('HGET', agent, 'blocked') == '1' and 'blocked' or 'idle')
  if has_work(agent) then make_ready(agent) end
end
