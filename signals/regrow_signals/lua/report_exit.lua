-- report_exit: a node tells how a process of its own ended; only the current incarnation's first report counts.
-- KEYS 1 agent hash       the agent's record
-- KEYS 2 exits stream     the watchdog's mailbox
-- KEYS 3 counters hash    exits by reason; lives that went to newer code
-- KEYS 4 events stream    life events
-- ARGV 1 agent_id         the agent
-- ARGV 2 incarnation      that ended
-- ARGV 3 node             that reports
-- ARGV 4 reason           kind or kind:detail
-- ARGV 5 kind             the reason's kind, of a bounded set, for the counter
-- ARGV 6 charge           attempt, kill or none, to the signal in hand
-- ARGV 7 charged          1 when it counts towards the restart intensity
-- ARGV 8 error            text for last_error, or ''
-- ARGV 9 in_hand          the acceptance id that was in hand, or ''
-- ARGV 10 max_events      cap of the events
-- ARGV 11 detail          the error's beginning, for the watchdog and the events
-- ARGV 12 token           of the owner whose end it is; '' where the incarnation alone says that
-- REPLY recorded
-- REPLY known
-- REPLY stale
-- REPLY corrupt <key> <why>
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
-- INCLUDE exits
-- INCLUDE fence
-- INCLUDE tell_exit
local agent = KEYS[1]
local exits = KEYS[2]
local counters = KEYS[3]
local events = KEYS[4]

local wrong = corrupt({agent, 'hash', exits, 'stream'})
if wrong then return wrong end
if exhausted(last_id(exits)) then return {'corrupt', exits, 'has used up its ids'} end
if ARGV[12] ~= '' and not is_owner(agent, ARGV[2], ARGV[12]) then return {'stale'} end
local now = now_ms()
local exit = {incarnation = ARGV[2], reason = ARGV[4], kind = ARGV[5], charge = ARGV[6], error = ARGV[8],
  in_hand = ARGV[9]}
local word = record_exit(agent, exit, now)
if word ~= 'recorded' then return {word} end
tell_exit(exits, counters, events, agent, {agent = ARGV[1], incarnation = ARGV[2], node = ARGV[3], reason = exit.reason,
  kind = exit.kind, charged = ARGV[7], detail = ARGV[11], max_events = ARGV[10]}, now)
if ARGV[5] == 'newer_code' then
  count(counters, 'workers_recycled_total|type=' .. (redis.call('HGET', agent, 'type') or '') .. '|reason=newer_code', 1)
end
return {'recorded'}
