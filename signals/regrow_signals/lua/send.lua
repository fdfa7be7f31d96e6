-- send: accept signals into mailboxes, each by itself: one refused or impossible disturbs no other.
-- KEYS 1 counters hash        accepted signals by agent type
-- KEYS ... boxes mixed        six a mailbox: agent hash, mailbox stream, dead stream, seen hash, seen-old hash, fate hash
-- ARGV 1 max_mailbox          bound of a mailbox whose agent names none of its own
-- ARGV 2 max_dead             bound of dead letters
-- ARGV 3 window_ms            how long ids are remembered at least
-- ARGV 4 max_ids              how many ids a generation holds
-- ARGV ... signals            for each: number of its mailbox (from 1), id, digest ('' = do not remember), count of
--                             words that follow, the entry's fields and values in turn
-- REPLY an array, for each signal one of
-- REPLY accepted <entry> <birth>
-- REPLY known <entry> <birth>
-- REPLY refused no_such_agent | mailbox_full <length> <bound> | mailbox_exhausted | dead_full <length> <bound> | id_conflict <id>
-- REPLY failed <the server's error, or WRONGTYPE and the key>
-- INCLUDE accept
local counters = KEYS[1]
local now = server_ms()
local boxes, accepted, replies = {}, {}, {}

-- All that is read of a mailbox, read before anything is written to it; a wrong type makes all of its signals fail.
local function read_box(at)
  local box = { agent = KEYS[at], mailbox = KEYS[at + 1], dead = KEYS[at + 2], seen = KEYS[at + 3], old = KEYS[at + 4],
    fate = KEYS[at + 5] }
  local agent = redis.call('HMGET', box.agent, 'birth', 'type', 'cursor', 'max_mailbox')
  box.birth, box.type, box.cursor = agent[1], agent[2] or 'unknown', agent[3]
  box.bound = tonumber(agent[4] or '') or tonumber(ARGV[1])
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
local function remember(box, id, entry, digest)
  local window = tonumber(ARGV[3])
  if box.since and (tonumber(now) - (tonumber(box.since) or 0) >= window or box.ids > tonumber(ARGV[4])) then
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

local function accept(box, id, digest, first, last)
  if not box.birth then return { 'refused', 'no_such_agent' } end
  local before = digest ~= '' and known(box, id, digest)
  if before then return before end
  if box.letters >= tonumber(ARGV[2]) then return { 'refused', 'dead_full', tostring(box.letters), ARGV[2] } end
  if box.length >= box.bound then return { 'refused', 'mailbox_full', tostring(box.length), tostring(box.bound) } end
  local words = { 'XADD', box.mailbox, entry_id(box.mailbox, box.cursor, now) }
  for place = first, last do words[#words + 1] = ARGV[place] end
  words[#words + 1], words[#words + 2] = 'at_ms', now
  local entry = redis.pcall(unpack(words)) -- an entry's fields: the caller sends 26 words at most
  if type(entry) == 'table' then
    if string.find(entry.err, 'exhausted', 1, true) then return { 'refused', 'mailbox_exhausted' } end
    return { 'failed', entry.err }
  end
  if digest ~= '' then remember(box, id, entry, digest) end
  redis.call('HDEL', box.fate, id)
  box.length = box.length + 1
  accepted[box.type] = (accepted[box.type] or 0) + 1
  return { 'accepted', entry, box.birth }
end

local TYPES = { 'hash', 'stream', 'stream', 'hash', 'hash', 'hash' }

local function read_or_error(at)
  local fine, found = pcall(read_box, at)
  if fine then return found end
  for place, wanted in ipairs(TYPES) do
    local key = KEYS[at + place - 1]
    local is = redis.call('TYPE', key).ok
    if is ~= wanted and is ~= 'none' then
      return { err = 'WRONGTYPE ' .. key .. ' is a ' .. is .. ', not a ' .. wanted }
    end
  end
  return { err = type(found) == 'table' and found.err or tostring(found) }
end

for at = 2, #KEYS, 6 do boxes[#boxes + 1] = read_or_error(at) end
local place = 5
while place <= #ARGV do
  local box, count = boxes[tonumber(ARGV[place])], tonumber(ARGV[place + 3])
  if box.err then
    replies[#replies + 1] = { 'failed', box.err }
  else
    replies[#replies + 1] = accept(box, ARGV[place + 1], ARGV[place + 2], place + 4, place + 3 + count)
  end
  place = place + 4 + count
end
-- A counter that was overwritten by hand refuses no signal.
for kind, count in pairs(accepted) do
  redis.pcall('HINCRBY', counters, 'signals_accepted_total|type=' .. kind, count)
end
return replies
