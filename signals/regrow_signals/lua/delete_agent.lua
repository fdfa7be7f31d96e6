-- delete_agent: an agent that no supervisor wants any more is forgotten, with all that is its own.
-- KEYS 1 agent hash          the agent's record
-- KEYS 2 mailbox stream      accepted signals that wait
-- KEYS 3 outbox stream       committed effects and held emits
-- KEYS 4 dead stream         dead letters
-- KEYS 5 journal stream      last transitions
-- KEYS 6 seen hash           remembered signal ids
-- KEYS 7 seen_old hash       the generation before
-- KEYS 8 fate hash           what became of signals
-- KEYS 9 supervisor hash     the supervisor that the record names
-- KEYS 10 agents zset        registered agents
-- KEYS 11 held zset          agents with held emits
-- KEYS 12 events stream      life events
-- ARGV 1 agent_id            the agent
-- ARGV 2 birth               of the registration that is meant
-- ARGV 3 path                of the supervisor whose key was given
-- ARGV 4 force               1: also with signals, letters or effects in it
-- ARGV 5 max_events          cap of the events
-- REPLY ok <signals> <letters> <open effects and emits>
-- REPLY corrupt <key> <why>
-- REPLY refused no_such_agent | conflict | still_supervised <path> | still_running | not_empty <n> <n> <n>
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE subscriptions
-- INCLUDE timer_keys
local agent, mailbox, outbox, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local supervisor, agents, held = KEYS[9], KEYS[10], KEYS[11]
local events = KEYS[12]

local wrong = corrupt({agent, 'hash', mailbox, 'stream', outbox, 'stream', dead, 'stream', supervisor, 'hash',
  agents, 'zset', held, 'zset'})
if wrong then return wrong end
if redis.call('EXISTS', agent) == 0 then return {'refused', 'no_such_agent'} end
local record = redis.call('HMGET', agent, 'birth', 'supervisor', 'owner', 'ended', 'incarnation')
if (record[1] or '') ~= ARGV[2] or (record[2] or '') ~= ARGV[3] then return {'refused', 'conflict'} end
if redis.call('HEXISTS', supervisor, 'child:' .. ARGV[1]) == 1 then return {'refused', 'still_supervised', ARGV[3]} end
if (record[3] or '') ~= '' and record[4] ~= record[5] then return {'refused', 'still_running'} end
local signals, letters, open = redis.call('XLEN', mailbox), redis.call('XLEN', dead), redis.call('XLEN', outbox)
if ARGV[4] ~= '1' and signals + letters + open > 0 then
  return {'refused', 'not_empty', tostring(signals), tostring(letters), tostring(open)}
end

unsubscribe_all(prefix_of(agent, ARGV[1]), ARGV[1])
forget_timers(agent)
redis.call('DEL', prefix_of(agent, ARGV[1]) .. 'effect-tags:' .. ARGV[1])
for place = 1, 8 do redis.call('DEL', KEYS[place]) end
redis.call('ZREM', agents, ARGV[1])
redis.call('ZREM', held, ARGV[1])
event(events, ARGV[5], now_ms(), 'deleted', 'agent', ARGV[1], 'supervisor', ARGV[3])
return {'ok', tostring(signals), tostring(letters), tostring(open)}
