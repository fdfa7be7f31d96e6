-- Redis's own clock in whole milliseconds; no client's clock is ever used.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
