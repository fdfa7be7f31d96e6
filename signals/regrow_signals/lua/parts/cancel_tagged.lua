-- INCLUDE unblock
-- INCLUDE effect_outcome
-- Cancels effects of an agent by their tag. Needs corrupt, count, entry_ids, mailboxes.
-- {ns}:effect-tags:<agent> <effect> = its tag; {ns}:cancelling: ids in executors' hands that are to stop.
-- name: of the effects that are meant; '' for all. Who waits is settled as cancelled at once; who is in an executor's hands
-- is told to stop, and is never begun again: its outcome is what the executor says, or `cancelled`. Returns how many of each.
local function cancel_tagged(prefix, agent, tag, name, now)
  local tags, waiting, stopping = prefix .. 'effect-tags:' .. agent, 0, 0
  local listed = redis.call('HGETALL', tags)
  for i = 1, #listed, 2 do
    local id, key = listed[i], prefix .. 'effect:' .. listed[i]
    local effect = listed[i + 1] == tag and not corrupt({key, 'hash'}) and read_effect(prefix, id)
    if effect and (name == '' or effect.name == name) then
      local box, bad = outcome_box(prefix, effect, now)
      if effect.status == 'claimed' then
        redis.call('HSET', key, 'cancelled', '1')
        redis.call('SADD', prefix .. 'cancelling', id)
        stopping = stopping + 1
      elseif not bad then
        settle_effect(prefix, effect, box, 'cancelled', cancelled_data(effect), now)
        waiting = waiting + 1
      end
    elseif listed[i + 1] == tag and redis.call('EXISTS', key) == 0 then
      redis.call('HDEL', tags, id)
    end
  end
  return waiting, stopping
end

local function tags_corrupt(prefix, agent)
  return corrupt({prefix .. 'effect-tags:' .. agent, 'hash', prefix .. 'cancelling', 'set'})
end
