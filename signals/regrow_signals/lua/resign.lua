-- resign: the leader gives its lease back, so that a standby need not wait for it to run out.
-- KEYS 1 leader string    who leads
-- KEYS 2 events stream    life events
-- ARGV 1 token            ours
-- ARGV 2 max_events       cap of the events
-- REPLY ok
-- REPLY corrupt <key> <why>
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
local leader = KEYS[1]
local events = KEYS[2]

local wrong = corrupt({leader, 'string'})
if wrong then return wrong end
if redis.call('GET', leader) == ARGV[1] then
  redis.call('DEL', leader)
  event(events, ARGV[2], now_ms(), 'leader_resigned', 'detail', ARGV[1])
end
return {'ok'}
