-- INCLUDE corrupt
-- INCLUDE let_go
-- Frees what a node's slot holds ('': all of its slots), but for the agent `spare`; returns how many. `clean` 0: any of
-- them may have been running, so they are careful, and the one that was being tried is charged a kill.
-- Bounded by what slots may claim. A record that cannot be read is left as it is, and stops no other.
local function free_claims(prefix, claims, node, slot, spare, clean, now)
  local freed = 0
  for _, member in ipairs(redis.call('SMEMBERS', claims)) do
    local holder, id = string.match(member, '^(%S+) (.+)$')
    if not holder then
      redis.call('SREM', claims, member)
    elseif (slot == '' or holder == slot) and id ~= spare then
      local agent = prefix .. 'agent:' .. id
      if not corrupt({agent, 'hash', prefix .. 'mailbox:' .. id, 'stream'}) then
        local record = redis.call('HMGET', agent, 'worker', 'owner')
        if record[1] == node .. '/' .. holder and (record[2] or '') ~= '' then
          if clean ~= '1' then redis.call('HSET', agent, 'charge', 'kill', 'exit_ms', now) end
          let_go(agent, clean)
          freed = freed + 1
        end
        redis.call('SREM', claims, member)
      end
    end
  end
  return freed
end
