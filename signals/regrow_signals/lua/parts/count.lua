-- Counters and events tell what happened; a damaged key of theirs must not stop an agent, so both are best effort.
local function count(key, name, by)
  redis.pcall('HINCRBY', key, name, by)
end

local function event(key, cap, now, name, ...)
  redis.pcall('XADD', key, 'MAXLEN', '~', cap, '*', 'event', name, 'at_ms', now, ...)
end
