-- acquire: the leader's lease, if nobody holds it or we do (then it is renewed).
-- KEYS 1 leader string    who leads; expires with the lease
-- KEYS 2 counters hash    changes of leadership
-- KEYS 3 events stream    life events
-- ARGV 1 token            ours
-- ARGV 2 lease_ms         how long
-- ARGV 3 max_events       cap of the events
-- REPLY ok <1 when it is ours>
-- REPLY corrupt <key> <why>
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
local leader = KEYS[1]
local counters = KEYS[2]
local events = KEYS[3]

local wrong = corrupt({leader, 'string'})
if wrong then return wrong end
local holder = redis.call('GET', leader)
if holder and holder ~= ARGV[1] then return {'ok', '0'} end
redis.call('SET', leader, ARGV[1], 'PX', ARGV[2])
if not holder then
  count(counters, 'leadership_changes_total', 1)
  event(events, ARGV[3], now_ms(), 'leader_elected', 'detail', ARGV[1])
end
return {'ok', '1'}
