-- effect_intervene: an operator tells an effect's outcome, or has it tried again now.
-- KEYS 1 effect hash       the effect's record
-- KEYS 2 effects zset      effects by due time
-- KEYS 3 bell list         wakes the ringer
-- ARGV 1 prefix            of all keys of the namespace: the agent is known only from the record
-- ARGV 2 effect_id         the effect
-- ARGV 3 outcome           done, failed or retry
-- ARGV 4 data              JSON of the outcome's signal
-- ARGV 5 force             1: also while an executor holds it, whose own outcome is then refused
-- REPLY ok
-- REPLY corrupt <key> <why>
-- REPLY refused effect_gone
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
local prefix, effect_id, outcome = ARGV[1], ARGV[2], ARGV[3]

local wrong = corrupt({effect, 'hash', effects, 'zset', effects .. '-async', 'zset', bell, 'list', bell .. '-async', 'list'})
if wrong then return wrong end
local found = read_effect(prefix, effect_id)
if not found then
  if redis.call('EXISTS', effect) == 1 then return {'corrupt', effect, 'lacks a field'} end
  return {'refused', 'effect_gone'}
end
if found.status == 'claimed' and ARGV[5] ~= '1' then
  return {'refused', 'effect_claimed', found.node or '', found.executor or ''}
end
-- What was told to stop is never begun again.
if found.cancelled and outcome == 'retry' then return {'refused', 'effect_gone'} end
local now = now_ms()
local box, bad = outcome_box(prefix, found, now)
if bad then return bad end

if outcome ~= 'retry' then
  settle_effect(prefix, found, box, outcome, ARGV[4], now)
  return {'ok'}
end
redis.call('HSET', effect, 'status', 'pending', 'token', '', 'due_ms', now)
redis.call('ZADD', effects .. found.queue, now, effect_id)
if found.node then redis.call('SREM', prefix .. 'claims:' .. found.node, effect_id) end
give_room(prefix, found)
bell = bell .. found.queue
if redis.call('LLEN', bell) == 0 then redis.call('LPUSH', bell, '1') end
return {'ok'}
