-- status: what became of a signal that was accepted once. Reads only.
-- KEYS 1 agent hash           the agent's record
-- KEYS 2 mailbox stream       its mailbox
-- KEYS 3 fate hash            signals not simply applied
-- KEYS 4 seen hash            ids remembered
-- KEYS 5 seen_old hash        the generation before
-- ARGV 1 id                   the signal's id
-- ARGV 2 entry                its acceptance id; '' when the sender got no answer
-- ARGV 3 birth                the agent's registration that accepted it; '' likewise
-- ARGV 4 remembered           1 when `send` remembered the id
-- REPLY pending
-- REPLY applied
-- REPLY dead <reason>
-- REPLY dropped
-- REPLY retried <new id>
-- REPLY unknown <why>
-- INCLUDE accept
local agent, mailbox, fate, seen, seen_old = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, entry, birth, remembered = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local found = redis.call('HMGET', agent, 'birth', 'cursor', 'postponed')
if not found[1] then return { 'unknown', 'no such agent' } end
if birth ~= '' and found[1] ~= birth then return { 'unknown', 'the agent was deleted and registered anew' } end
local lost = { 'unknown', 'not where it must be: Redis went back to a time before it, or keys were changed by hand' }

local value = redis.call('HGET', seen, id) or redis.call('HGET', seen_old, id)
if entry == '' then
  if remembered ~= '1' then return { 'unknown', 'sent in bulk without an id of its own: nothing tells it from others' } end
  if not value then return { 'unknown', 'no signal of this id is remembered: send it again under the same id' } end
  entry = string.match(value, '^%S+')
end

local function after(a, b)
  local a_ms, a_seq = id_parts(a)
  local b_ms, b_seq = id_parts(b)
  if not a_ms or not b_ms then return b_ms == nil end
  if a_ms ~= b_ms then return number_less(b_ms, a_ms) end
  return number_less(b_seq, a_seq)
end

-- Before the cursor there are only those that wait for another mode of the agent.
local ahead = after(entry, found[2] or '0-0')
local waiting = (ahead or (found[3] or '0') ~= '0') and redis.call('XRANGE', mailbox, entry, entry)[1]
if ahead or waiting then
  if not waiting then return lost end
  for place = 1, #waiting[2], 2 do
    if waiting[2][place] == 'id' and waiting[2][place + 1] == id then return { 'pending' } end
  end
  return lost
end
local became = redis.call('HGET', fate, id)
if became then
  local word, rest = string.match(became, '^(%S+) ?(.*)$')
  return { word, rest }
end
-- A remembered id whose generation is still there must be in it: if not, the acceptance was undone by a loss in Redis.
if value then
  if string.match(value, '^%S+') == entry then return { 'applied' } end
  return lost
end
local since = redis.call('HGET', seen_old, '.since') or redis.call('HGET', seen, '.since')
local entry_ms = id_parts(entry)
if remembered == '1' and since and number_less(since, entry_ms) then return lost end
if redis.call('HEXISTS', fate, '.forgot') == 1 then return { 'unknown', 'too long ago' } end
return { 'applied' }
