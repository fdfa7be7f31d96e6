-- request: something is asked of the watchdog; the same request id is taken once, also after its answer was read.
-- KEYS 1 exits stream     the watchdog's mailbox
-- KEYS 2 reply list       where the answer will be
-- KEYS 3 asked list       marks the request as taken, for some minutes
-- ARGV 1 request          its id
-- ARGV 2 op               what is asked
-- ARGV 3 max_exits        bound of the watchdog's mailbox
-- ARGV ... fields         names and values in turn, a few
-- REPLY ok
-- REPLY known
-- REPLY corrupt <key> <why>
-- REPLY refused watchdog_busy <length> <bound>
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE entry_ids
local exits = KEYS[1]
local reply = KEYS[2]
local asked = KEYS[3]

local wrong = corrupt({exits, 'stream', reply, 'list', asked, 'list'})
if wrong then return wrong end
if redis.call('EXISTS', asked) == 1 then return {'known'} end
local length = redis.call('XLEN', exits)
if length >= tonumber(ARGV[3]) then return {'refused', 'watchdog_busy', tostring(length), ARGV[3]} end
if exhausted(last_id(exits)) then return {'corrupt', exits, 'has used up its ids'} end

redis.call('RPUSH', asked, ARGV[2])
redis.call('PEXPIRE', asked, 600000)
local fields = {}
for i = 4, #ARGV do fields[i - 3] = ARGV[i] end
redis.call('XADD', exits, '*', 'kind', 'request', 'request', ARGV[1], 'op', ARGV[2], 'at_ms', now_ms(), unpack(fields))
return {'ok'}
