-- effect_progress: the executor that holds an effect says how far it is; whoever listens to its agent's channel hears it.
-- KEYS 1 effect hash       the effect's record
-- ARGV 1 channel           of the agent's effects: its end is the agent, known only from the record
-- ARGV 2 effect_id         the effect
-- ARGV 3 token             of the claim
-- ARGV 4 progress          JSON
-- REPLY ok <1 when it is to stop>
-- REPLY corrupt <key> <why>
-- REPLY refused effect_claimed <node> <executor>
-- INCLUDE now_ms
-- INCLUDE corrupt
local effect = KEYS[1]

local wrong = corrupt({effect, 'hash'})
if wrong then return wrong end
local record = redis.call('HMGET', effect, 'status', 'token', 'agent', 'name', 'attempts', 'tag', 'cancelled', 'node', 'executor')
if record[1] ~= 'claimed' or record[2] ~= ARGV[3] or ARGV[3] == '' or not record[3] then
  return {'refused', 'effect_claimed', record[8] or '', record[9] or ''}
end
local now = string.format('%.0f', now_ms())
redis.call('HSET', effect, 'progress', ARGV[4], 'progress_ms', now, 'progress_attempt', record[5] or '0')
-- Best effort: a user without the right to publish there keeps the record. The JSON of progress is put in as it is: cjson would change its numbers.
redis.pcall('PUBLISH', ARGV[1] .. record[3], '{"effect":' .. cjson.encode(ARGV[2]) .. ',"agent":' .. cjson.encode(record[3]) ..
  ',"name":' .. cjson.encode(record[4] or '') .. ',"attempt":' .. (tonumber(record[5]) or 0) .. ',"tag":' ..
  cjson.encode(record[6] or '') .. ',"at_ms":' .. now .. ',"progress":' .. ARGV[4] .. '}')
return {'ok', record[7] == '1' and '1' or '0'}
