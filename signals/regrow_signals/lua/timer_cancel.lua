-- timer_cancel: somebody at the command line takes a timer away.
-- KEYS 1 timer hash       the timer
-- KEYS 2 timers zset      all timers by the time to look at them
-- KEYS 3 own set          timers that the agent set itself
-- ARGV 1 timer_id         the timer
-- REPLY ok <1 when it was there>
-- REPLY corrupt <key> <why>
-- REPLY refused declared_timer
-- INCLUDE corrupt
-- INCLUDE timer_keys
local timer = KEYS[1]
local timers = KEYS[2]
local own = KEYS[3]

local wrong = corrupt({timer, 'hash', timers, 'zset', own, 'set'})
if wrong then return wrong end
if redis.call('HGET', timer, 'declared') == '1' then return {'refused', 'declared_timer'} end
local there = redis.call('EXISTS', timer)
remove_timer(timer, timers, own, ARGV[1])
return {'ok', tostring(there)}
