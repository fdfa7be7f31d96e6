-- pool_free: a node frees what its slot holds and has not begun: the slot is stuck in one transition, or its process ended.
-- KEYS 1 claims set        what the node's slots hold: slot and agent
-- KEYS 2 exits stream      the watchdog's mailbox
-- KEYS 3 counters hash     exits by reason
-- KEYS 4 events stream     life events
-- ARGV 1 prefix            of all keys of the namespace: agents are known only from the set
-- ARGV 2 node              the node
-- ARGV 3 slot              number of the slot's process; '' for all of them
-- ARGV 4 clean             1: none but the one in hand can have been running
-- ARGV 5 agent_id          the agent in hand, or ''
-- ARGV 6 incarnation       of it; '' where it is left to the slot, which goes on with it
-- ARGV 7 reason            why the slot's process ended: kind or kind:detail
-- ARGV 8 kind              the reason's kind, of a bounded set, for the counter
-- ARGV 9 charge            attempt, kill or none, to the signal in hand
-- ARGV 10 charged          1 when it counts towards the agent's restart intensity
-- ARGV 11 error            text for last_error, or ''
-- ARGV 12 in_hand          the acceptance id that was in hand, or ''
-- ARGV 13 max_events       cap of the events
-- ARGV 14 detail           the error's beginning, for the watchdog and the events
-- REPLY ok <freed> <recorded, known, stale or none>
-- REPLY corrupt <key> <why>
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
-- INCLUDE exits
-- INCLUDE tell_exit
-- INCLUDE free_claims
local claims = KEYS[1]
local exits = KEYS[2]
local counters = KEYS[3]
local events = KEYS[4]
local prefix, node, slot = ARGV[1], ARGV[2], ARGV[3]
local agent_id, incarnation = ARGV[5], ARGV[6]

local wrong = corrupt({claims, 'set', exits, 'stream'})
if wrong then return wrong end
if exhausted(last_id(exits)) then return {'corrupt', exits, 'has used up its ids'} end
local now = now_ms()
local freed = free_claims(prefix, claims, node, slot, agent_id, ARGV[4], now)
if agent_id == '' or incarnation == '' then return {'ok', tostring(freed), 'none'} end
redis.call('SREM', claims, slot .. ' ' .. agent_id)
local agent = prefix .. 'agent:' .. agent_id
-- Somebody may have freed or stopped it before the slot ended: then its life goes on elsewhere, or is over already.
if corrupt({agent, 'hash'}) or redis.call('HGET', agent, 'worker') ~= node .. '/' .. slot then
  return {'ok', tostring(freed), 'stale'}
end
local exit = {incarnation = incarnation, reason = ARGV[7], kind = ARGV[8], charge = ARGV[9], error = ARGV[11],
  in_hand = ARGV[12]}
local word = record_exit(agent, exit, now)
if word == 'recorded' then
  tell_exit(exits, counters, events, agent, {agent = agent_id, incarnation = incarnation, node = node, reason = exit.reason,
    kind = exit.kind, charged = ARGV[10], detail = ARGV[14], max_events = ARGV[13]}, now)
end
return {'ok', tostring(freed), word}
