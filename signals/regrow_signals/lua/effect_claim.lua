-- effect_claim: an executor takes a pending effect; its own repeat is answered alike. One that a lost node holds is
-- taken over, or settled as in doubt where it may not be repeated.
-- KEYS 1 effect hash       the effect's record
-- KEYS 2 effects zset      effects by due time
-- KEYS 3 claims set        what this node's executors hold
-- KEYS 4 limits hash       how many of a name at once, or in a time
-- ARGV 1 prefix            of all keys of the namespace: the agent is known only from the record
-- ARGV 2 effect_id         the effect
-- ARGV 3 node              of the executor
-- ARGV 4 executor          which one
-- ARGV 5 token             fresh, random
-- ARGV 6 max_kills         then it has failed
-- REPLY ok <agent> <name> <args> <attempts> <timeout_ms> <idempotent> <at_ms> <retries> <backoff_ms> <kills> <traceparent> <tracestate> <tag>
-- REPLY corrupt <key> <why>
-- REPLY dropped <outcome>
-- REPLY put_off <concurrency or rate> <ms until there is room, where that is known>
-- REPLY refused effect_gone
-- REPLY refused effect_claimed <node> <executor>
-- REPLY refused effect_not_due <ms>
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
-- INCLUDE mailboxes
-- INCLUDE unblock
-- INCLUDE effect_outcome
local effect = KEYS[1]
local effects = KEYS[2]
local claims = KEYS[3]
local limits = KEYS[4]
local prefix, effect_id = ARGV[1], ARGV[2]

local wrong = corrupt({effect, 'hash', effects, 'zset', effects .. '-async', 'zset', claims, 'set', limits, 'hash'})
if wrong then return wrong end
local found = read_effect(prefix, effect_id)
if not found then
  if redis.call('EXISTS', effect) == 1 then return {'corrupt', effect, 'lacks a field'} end
  return {'refused', 'effect_gone'}
end
local now = now_ms()
local box, bad = outcome_box(prefix, found, now)
if bad then return bad end
local mine = found.status == 'claimed' and found.token == ARGV[5]
-- A node that was declared lost may still have live executors: what they took, others would take for orphaned.
if not mine and redis.call('EXISTS', prefix .. 'node:' .. ARGV[3]) == 0 then
  return {'refused', 'effect_claimed', ARGV[3], 'a node that is not up'}
end
local orphan = found.status == 'claimed' and not mine and redis.call('EXISTS', prefix .. 'node:' .. (found.node or '')) == 0
if found.status == 'claimed' and not mine and not orphan then
  return {'refused', 'effect_claimed', found.node or '', found.executor or ''}
end
if found.status == 'pending' and found.due_ms > now then
  return {'refused', 'effect_not_due', string.format('%.0f', found.due_ms - now)}
end
local outbox = prefix .. 'outbox:' .. found.agent
local order = {}
local item = redis.call('XRANGE', outbox, found.entry, found.entry)[1]
local limit = not mine and read_limit(redis.call('HGET', limits, found.name))
wrong = limit and limit_keys_corrupt(prefix, found.queue, found.name)
if wrong then return wrong end
if not item and not box.gone then return {'corrupt', outbox, 'has lost the entry ' .. found.entry .. ' of ' .. effect_id} end

if not item then
  settle_effect(prefix, found, box, 'failed', '{}', now)
  return {'dropped', 'no_such_agent'}
end
if orphan then
  local word, data = after_a_death(found, tonumber(ARGV[6]))
  if data then
    settle_effect(prefix, found, box, word, data, now)
    return {'dropped', word}
  end
  redis.call('SREM', prefix .. 'claims:' .. (found.node or ''), effect_id)
  give_room(prefix, found)
  found.kills, found.attempts = found.kills + 1, found.attempts - 1
end
if limit and not limit.void then
  local room, wait = effect_room(prefix, found.name, limit, now)
  if room.free < 1 then
    redis.call('HSET', effect, 'status', 'pending', 'token', '', 'attempts', found.attempts, 'kills', found.kills)
    park(prefix, found.queue, found.name, effect_id, found.due_ms)
    return {'put_off', room.bound, string.format('%.0f', wait(0) or 0)}
  end
  take_room(prefix, found.name, limit, room, effect_id)
  if limit.concurrency > 0 then redis.call('HSET', effect, 'limited', '1') end
end
if limit then redis.call('ZREM', parked_key(prefix, found.queue, found.name), effect_id) end
for i = 1, #item[2], 2 do order[item[2][i]] = item[2][i + 1] end
if not mine then
  found.attempts = found.attempts + 1
  redis.call('HSET', effect, 'status', 'claimed', 'attempts', found.attempts, 'kills', found.kills, 'node', ARGV[3],
    'executor', ARGV[4], 'token', ARGV[5], 'claimed_ms', now)
  redis.call('ZADD', effects .. found.queue, now + found.timeout_ms + 10000, effect_id)
  redis.call('SADD', claims, effect_id)
end
return {'ok', found.agent, found.name, order.args or 'null', string.format('%.0f', found.attempts),
  string.format('%.0f', found.timeout_ms), found.idempotent and '1' or '0', order.at_ms or '0', order.retries or '0',
  order.backoff_ms or '0', string.format('%.0f', found.kills), found.traceparent or '',
  found.tracestate or '', found.tag or ''}
