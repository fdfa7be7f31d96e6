-- effect_settle: the executor that holds an effect tells its outcome: into the mailbox, the entry away, in one step.
-- KEYS 1 effect hash       the effect's record
-- KEYS 2 effects zset      effects by due time
-- KEYS 3 bell list         wakes the ringer
-- ARGV 1 prefix            of all keys of the namespace: the agent is known only from the record
-- ARGV 2 effect_id         the effect
-- ARGV 3 token             of the claim
-- ARGV 4 outcome           done, failed, in_doubt, cancelled or retry
-- ARGV 5 data              JSON of the outcome's signal; of cancelled it is made here
-- ARGV 6 retry_in_ms       for retry
-- REPLY ok <1 when it had been settled before>
-- REPLY corrupt <key> <why>
-- REPLY refused effect_claimed <node> <executor>
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
-- INCLUDE mailboxes
-- INCLUDE unblock
-- INCLUDE effect_outcome
local effect = KEYS[1]
local effects = KEYS[2]
local bell = KEYS[3]
local prefix, effect_id, token, outcome = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local wrong = corrupt({effect, 'hash', effects, 'zset', effects .. '-async', 'zset', bell, 'list', bell .. '-async', 'list'})
if wrong then return wrong end
local found = read_effect(prefix, effect_id)
if not found then
  if redis.call('EXISTS', effect) == 1 then return {'corrupt', effect, 'lacks a field'} end
  return {'ok', '1'}
end
if token ~= '' and found.settled_token == token then return {'ok', '1'} end
if token == '' or found.status ~= 'claimed' or found.token ~= token then
  return {'refused', 'effect_claimed', found.node or '', found.executor or ''}
end
local now = now_ms()
local box, bad = outcome_box(prefix, found, now)
if bad then return bad end

local data = ARGV[5]
if outcome == 'cancelled' or (found.cancelled and (outcome == 'retry' or outcome == 'in_doubt')) then
  outcome, data = 'cancelled', cancelled_data(found)
end
if outcome ~= 'retry' then
  settle_effect(prefix, found, box, outcome, data, now)
  return {'ok', '0'}
end
local due = now + ARGV[6]
redis.call('HSET', effect, 'status', 'pending', 'token', '', 'settled_token', token, 'due_ms', due)
redis.call('ZADD', effects .. found.queue, due, effect_id)
redis.call('SREM', prefix .. 'claims:' .. (found.node or ''), effect_id)
give_room(prefix, found)
bell = bell .. found.queue
if due <= now and redis.call('LLEN', bell) == 0 then redis.call('LPUSH', bell, '1') end
count(prefix .. 'counters', 'effects_total|name=' .. found.name .. '|outcome=retry', 1)
return {'ok', '0'}
