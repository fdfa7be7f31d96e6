-- renew: the leader's lease, only while it is still ours.
-- KEYS 1 leader string    who leads; expires with the lease
-- ARGV 1 token            ours
-- ARGV 2 lease_ms         how long from now
-- REPLY ok <1 when it is ours>
-- REPLY corrupt <key> <why>
-- INCLUDE corrupt
local leader = KEYS[1]

local wrong = corrupt({leader, 'string'})
if wrong then return wrong end
if redis.call('GET', leader) ~= ARGV[1] then return {'ok', '0'} end
-- SET, not PEXPIRE: a Redis that takes no writes for want of memory must refuse this as it refuses the nodes' beats.
redis.call('SET', leader, ARGV[1], 'PX', ARGV[2])
return {'ok', '1'}
