-- Puts an agent on record. `fresh` is what a new record begins with, `fields` what its spec says now: names and values in
-- turn. A record that is there, damaged or not, is never made anew: claim says what it lacks.
local function register(key, agents, agent, fresh, fields, now)
  if redis.call('EXISTS', key) == 0 then
    for i = 1, #fresh, 2 do redis.call('HSET', key, fresh[i], fresh[i + 1]) end
    redis.call('HSET', key, 'created_ms', now)
  end
  for i = 1, #fields, 2 do redis.call('HSET', key, fields[i], fields[i + 1]) end
  redis.call('ZADD', agents, 'NX', 0, agent)
end
