-- effect_abandon: a node's executor, or all of its executors, are gone: what they held is pending again, or in doubt.
-- KEYS 1 claims set        what the node's executors hold
-- KEYS 2 effects zset      effects by due time
-- KEYS 3 bell list         wakes the ringer
-- ARGV 1 prefix            of all keys of the namespace: effects are known only from the set
-- ARGV 2 node              the node
-- ARGV 3 executor          which one; '' for all
-- ARGV 4 max_kills         then it has failed
-- REPLY ok <effect> <pending, in_doubt, failed, cancelled or stuck> ...
-- REPLY corrupt <key> <why>
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
-- INCLUDE mailboxes
-- INCLUDE unblock
-- INCLUDE effect_outcome
local claims = KEYS[1]
local effects = KEYS[2]
local bell = KEYS[3]
local prefix, node, executor = ARGV[1], ARGV[2], ARGV[3]

local wrong = corrupt({claims, 'set', effects, 'zset', effects .. '-async', 'zset', bell, 'list', bell .. '-async', 'list'})
if wrong then return wrong end
local now = now_ms()
local reply, freed = {'ok'}, {}
local function tell(id, word)
  reply[#reply + 1] = id
  reply[#reply + 1] = word
end

-- The set is bounded by what the node's executors can hold at once. One effect that cannot be read keeps its place and
-- stops no other: nothing that this loop wrote before it needs to be taken back.
for _, id in ipairs(redis.call('SMEMBERS', claims)) do
  local key = prefix .. 'effect:' .. id
  local found = not corrupt({key, 'hash'}) and read_effect(prefix, id)
  if not found then
    if redis.call('EXISTS', key) == 0 then redis.call('SREM', claims, id) else tell(id, 'stuck') end
  elseif found.status ~= 'claimed' or found.node ~= node then
    redis.call('SREM', claims, id)
  elseif executor == '' or found.executor == executor then
    local box, bad = outcome_box(prefix, found, now)
    local word, data = after_a_death(found, tonumber(ARGV[4]))
    if bad then
      word = 'stuck'
    elseif data then
      settle_effect(prefix, found, box, word, data, now)
    else
      redis.call('HSET', key, 'status', 'pending', 'token', '', 'due_ms', now, 'kills', found.kills + 1,
        'attempts', math.max(found.attempts - 1, 0))
      redis.call('ZADD', effects .. found.queue, now, id)
      redis.call('SREM', claims, id)
      give_room(prefix, found)
      count(prefix .. 'counters', 'effects_total|name=' .. found.name .. '|outcome=abandoned', 1)
      freed[bell .. found.queue] = true
    end
    tell(id, word)
  end
end
for each in pairs(freed) do
  if redis.call('LLEN', each) == 0 then redis.call('LPUSH', each, '1') end
end
return reply
