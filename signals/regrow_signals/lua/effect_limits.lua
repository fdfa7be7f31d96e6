-- effect_limits: an executor announces the limits of the effects that it knows; those of other names stay.
-- KEYS 1 limits hash       how many of a name at once, or in a time
-- ARGV ... limits          name, and `<concurrency> <count> <period_ms>` (0: none) or '' (no limit), in turn
-- REPLY ok
-- REPLY corrupt <key> <why>
-- INCLUDE corrupt
local limits = KEYS[1]

local wrong = corrupt({limits, 'hash'})
if wrong then return wrong end
for i = 1, #ARGV, 2 do
  local name, limit = ARGV[i], ARGV[i + 1]
  if limit ~= '' then
    redis.call('HSET', limits, name, limit)
  elseif redis.call('HEXISTS', limits, name) == 1 then
    -- What waits under a limit that is no more is let go by `ring`, which then drops the name.
    redis.call('HSET', limits, name, '0 0 0')
  end
end
return {'ok'}
