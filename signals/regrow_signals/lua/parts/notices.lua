-- Notices into mailboxes, in the step of what they tell of. Needs corrupt, count, entry_ids, mailboxes. They refuse
-- nothing: what cannot be put into a mailbox is an event. `desk`: prefix (of all keys), events, max_events, bounds
-- (max_mailbox, max_dead), room (above max_mailbox). `fields`: names and values in turn, without at_ms.
local function put_notice(desk, agent, kind, fields, now)
  local box = look_at_mailbox(desk.prefix .. 'agent:' .. agent, desk.prefix .. 'mailbox:' .. agent,
    desk.prefix .. 'dead:' .. agent, desk.bounds, now)
  if box.gone == 'no_such_agent' then return end
  local why = box.gone or (box.length >= box.bound + desk.room and 'mailbox_full')
  if why then
    event(desk.events, desk.max_events, now, 'notice_dropped', 'agent', agent, 'reason', why, 'detail', kind)
    return
  end
  local words = {'at_ms', now}
  for i = 1, #fields do words[i + 2] = fields[i] end
  put_in_mailbox(box, words)
end

-- A life of `agent` is over: whoever monitors it is told, once. A monitor is a field of the watched agent's record:
-- monitor:<watcher> = <id of the notice> <birth of the watcher>.
local function tell_monitors(desk, agent, kind, data, now)
  local key = desk.prefix .. 'agent:' .. agent
  local names = redis.pcall('HKEYS', key)
  if names.err then return end
  for _, name in ipairs(names) do
    local watcher = string.match(name, '^monitor:(.+)$')
    if watcher then
      local id, birth = string.match(redis.call('HGET', key, name), '^(%S+) (%S+)$')
      redis.call('HDEL', key, name)
      if id and redis.pcall('HGET', desk.prefix .. 'agent:' .. watcher, 'birth') == birth then
        put_notice(desk, watcher, kind, {'id', id, 'type', kind, 'source', 'regrow', 'data', data, 'notice', '1'}, now)
      end
    end
  end
end
