-- INCLUDE ready
-- What a mailbox can take: {key, id, room, length}, or {gone = reason} where it can never take an entry.
-- Needs corrupt and entry_ids. `cursor` overrides the stored one (a commit's own, not yet written); `new` is the registration
-- (type, birth, max_mailbox) of an agent that this very step registers.
local function look_at_mailbox(agent, mailbox, dead, bounds, now, cursor, new)
  local box = {agent = agent, key = mailbox, room = 0, length = 0}
  if corrupt({agent, 'hash', mailbox, 'stream', dead, 'stream'}) then
    box.gone = 'target_corrupt'
    return box
  end
  local record = new and {new.type, '0-0', new.max_mailbox, new.birth} or
    redis.call('HMGET', agent, 'type', 'cursor', 'max_mailbox', 'birth', 'isolation')
  if not record[1] then
    box.gone = 'no_such_agent'
    return box
  end
  box.birth, box.pooled = record[4], record[5] == 'pool'
  cursor = cursor or record[2] or '0-0'
  box.id = is_id(cursor) and next_id(last_id(mailbox), cursor, now)
  if not box.id then
    box.gone = is_id(cursor) and 'mailbox_exhausted' or 'target_corrupt'
    return box
  end
  box.length = redis.call('XLEN', mailbox)
  box.bound = tonumber(record[3]) or bounds.max_mailbox
  if redis.call('XLEN', dead) < bounds.max_dead then box.room = box.bound - box.length end
  return box
end

-- `fields` is one signal's, bounded by the caller: names and values in turn.
local function put_in_mailbox(box, fields)
  local entry = redis.call('XADD', box.key, box.id, unpack(fields))
  box.id = '*'
  box.room = box.room - 1
  if box.pooled then make_ready(box.agent) end
  box.pooled = false
  return entry
end
