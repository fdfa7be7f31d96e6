-- Puts an agent on record. Needs corrupt, count, entry_ids, mailboxes, subscriptions. `new`: `fresh` is what a new record begins with, `fields` what its
-- spec says now, `first` the notice that a new agent's mailbox begins with, or empty: names and values in turn; `subscribe` and `bounds` as subscriptions take them. A record
-- that is there, damaged or not, is never made anew: claim says what it lacks.
local function register(key, agents, agent, new, mailbox, now)
  if redis.call('EXISTS', key) == 0 then
    for i = 1, #new.fresh, 2 do redis.call('HSET', key, new.fresh[i], new.fresh[i + 1]) end
    redis.call('HSET', key, 'created_ms', now)
    if #new.first > 0 and not corrupt({mailbox, 'stream'}) and not exhausted(last_id(mailbox)) then
      local fields = {'at_ms', now}
      for i = 1, #new.first do fields[i + 2] = new.first[i] end
      put_in_mailbox({key = mailbox, id = '*', room = 0}, fields)
    end
  end
  for i = 1, #new.fields, 2 do redis.call('HSET', key, new.fields[i], new.fields[i + 1]) end
  redis.call('ZADD', agents, 'NX', 0, agent)
  local bounds = {max_subscribers = tonumber(new.bounds[1]), max_patterns = tonumber(new.bounds[2]), max_events = new.bounds[3]}
  set_spec_subscriptions(prefix_of(key, agent), agent, new.subscribe, bounds, now)
end
