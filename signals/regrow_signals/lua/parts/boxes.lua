-- INCLUDE ready
-- Functions that accept a signal into a mailbox with all its bounds and its memory of ids. Needs accept. `bounds`:
-- max_mailbox, max_dead, window_ms, max_ids as texts; six keys a mailbox, from names[at] on, in send's order.
local BOX_TYPES = { 'hash', 'stream', 'stream', 'hash', 'hash', 'hash' }

-- All that is read of a mailbox, read before anything is written to it; a wrong type makes all of its signals fail.
-- `id`: what is known of this signal is read with it, which saves a command or two where a box takes but one.
local function read_box(names, at, bounds, id)
  local box = { agent = names[at], mailbox = names[at + 1], dead = names[at + 2], seen = names[at + 3],
    old = names[at + 4], fate = names[at + 5] }
  local agent = redis.call('HMGET', box.agent, 'birth', 'type', 'cursor', 'max_mailbox', 'isolation')
  box.birth, box.type, box.cursor = agent[1], agent[2] or 'unknown', agent[3]
  box.bound = tonumber(agent[4] or '') or tonumber(bounds[1])
  box.pooled = agent[5] == 'pool'
  box.length, box.letters = redis.call('XLEN', box.mailbox), redis.call('XLEN', box.dead)
  box.ids = redis.call('HLEN', box.seen)
  if id then
    local seen = redis.call('HMGET', box.seen, '.since', id)
    box.since, box.looked, box.found = seen[1], id, seen[2] or redis.call('HGET', box.old, id)
    box.fateless = redis.call('HEXISTS', box.fate, id) == 0
  else
    box.since = redis.call('HGET', box.seen, '.since')
    redis.call('HLEN', box.old)
    redis.call('HLEN', box.fate)
  end
  return box
end

-- The same; {err = text} where a key holds another type.
local function read_box_or_error(names, at, bounds, id)
  local fine, found = pcall(read_box, names, at, bounds, id)
  if fine then return found end
  for place, wanted in ipairs(BOX_TYPES) do
    local key = names[at + place - 1]
    local is = redis.call('TYPE', key).ok
    if is ~= wanted and is ~= 'none' then
      return { err = 'WRONGTYPE ' .. key .. ' is a ' .. is .. ', not a ' .. wanted }
    end
  end
  return { err = type(found) == 'table' and found.err or tostring(found) }
end

local function known(box, id, digest)
  local found = box.looked == id and box.found
  if box.looked ~= id then found = redis.call('HGET', box.seen, id) or redis.call('HGET', box.old, id) end
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
  if box.since then
    redis.call('HSET', box.seen, id, entry .. ' ' .. digest)
  else
    redis.call('HSET', box.seen, '.since', now, id, entry .. ' ' .. digest)
    redis.call('PEXPIRE', box.seen, string.format('%.0f', 2 * window))
    box.since, box.ids = now, 1
  end
  box.ids = box.ids + 1
end

-- The words of XADD for the entry whose fields and values stand in ARGV from `first` to `last`; accept puts its mailbox and
-- id into places 2 and 3, so one list serves many.
local function entry_words(first, last, now)
  local words = { 'XADD', '', '*' }
  for place = first, last do words[#words + 1] = ARGV[place] end
  words[#words + 1], words[#words + 2] = 'at_ms', now
  return words
end

-- `box.before`, where there is one, is called right before the entry is written: what comes first in a new mailbox.
local function accept(box, id, digest, words, bounds, now)
  if not box.birth then return { 'refused', 'no_such_agent' } end
  local before = digest ~= '' and known(box, id, digest)
  if before then return before end
  if box.letters >= tonumber(bounds[2]) then return { 'refused', 'dead_full', tostring(box.letters), bounds[2] } end
  if box.length >= box.bound then return { 'refused', 'mailbox_full', tostring(box.length), tostring(box.bound) } end
  words[2], words[3] = box.mailbox, box.length > 0 and '*' or entry_id(box.mailbox, box.cursor, now)
  if box.before then box.before() end
  local entry = redis.pcall(unpack(words)) -- an entry's fields: the caller sends 26 words at most
  if type(entry) == 'table' then
    if string.find(entry.err, 'exhausted', 1, true) then return { 'refused', 'mailbox_exhausted' } end
    return { 'failed', entry.err }
  end
  if digest ~= '' then remember(box, id, entry, digest, bounds, now) end
  if not box.fateless then redis.call('HDEL', box.fate, id) end
  box.length = box.length + 1
  if box.pooled then make_ready(box.agent) end
  box.pooled = false
  return { 'accepted', entry, box.birth }
end
