-- Functions that accept a signal into a mailbox with all its bounds and its memory of ids. Needs accept. `bounds`:
-- max_mailbox, max_dead, window_ms, max_ids as texts; six keys a mailbox, from KEYS[at] on, in send's order.
-- All that is read of a mailbox, read before anything is written to it; a wrong type makes all of its signals fail.
local function read_box(at, bounds)
  local box = { agent = KEYS[at], mailbox = KEYS[at + 1], dead = KEYS[at + 2], seen = KEYS[at + 3], old = KEYS[at + 4],
    fate = KEYS[at + 5] }
  local agent = redis.call('HMGET', box.agent, 'birth', 'type', 'cursor', 'max_mailbox')
  box.birth, box.type, box.cursor = agent[1], agent[2] or 'unknown', agent[3]
  box.bound = tonumber(agent[4] or '') or tonumber(bounds[1])
  box.length, box.letters = redis.call('XLEN', box.mailbox), redis.call('XLEN', box.dead)
  box.since, box.ids = redis.call('HGET', box.seen, '.since'), redis.call('HLEN', box.seen)
  redis.call('HLEN', box.old)
  redis.call('HLEN', box.fate)
  return box
end

local function known(box, id, digest)
  local found = redis.call('HGET', box.seen, id) or redis.call('HGET', box.old, id)
  if not found then return nil end
  local entry, before = string.match(found, '^(%S+) (%S+)$')
  if before == digest then return { 'known', entry, box.birth } end
  return { 'refused', 'id_conflict', id }
end

-- Generations: a full or old one becomes the old one. Both expire when nobody may ask for their ids any more.
local function remember(box, id, entry, digest, bounds, now)
  local window = tonumber(bounds[3])
  if box.since and (tonumber(now) - (tonumber(box.since) or 0) >= window or box.ids > tonumber(bounds[4])) then
    redis.call('RENAME', box.seen, box.old)
    box.since = nil
  end
  if not box.since then
    redis.call('HSET', box.seen, '.since', now)
    redis.call('PEXPIRE', box.seen, string.format('%.0f', 2 * window))
    box.since, box.ids = now, 1
  end
  redis.call('HSET', box.seen, id, entry .. ' ' .. digest)
  box.ids = box.ids + 1
end

-- The entry's fields and values stand in ARGV from `first` to `last`.
local function accept(box, id, digest, first, last, bounds, now)
  if not box.birth then return { 'refused', 'no_such_agent' } end
  local before = digest ~= '' and known(box, id, digest)
  if before then return before end
  if box.letters >= tonumber(bounds[2]) then return { 'refused', 'dead_full', tostring(box.letters), bounds[2] } end
  if box.length >= box.bound then return { 'refused', 'mailbox_full', tostring(box.length), tostring(box.bound) } end
  local words = { 'XADD', box.mailbox, entry_id(box.mailbox, box.cursor, now) }
  for place = first, last do words[#words + 1] = ARGV[place] end
  words[#words + 1], words[#words + 2] = 'at_ms', now
  local entry = redis.pcall(unpack(words)) -- an entry's fields: the caller sends 26 words at most
  if type(entry) == 'table' then
    if string.find(entry.err, 'exhausted', 1, true) then return { 'refused', 'mailbox_exhausted' } end
    return { 'failed', entry.err }
  end
  if digest ~= '' then remember(box, id, entry, digest, bounds, now) end
  redis.call('HDEL', box.fate, id)
  box.length = box.length + 1
  return { 'accepted', entry, box.birth }
end
