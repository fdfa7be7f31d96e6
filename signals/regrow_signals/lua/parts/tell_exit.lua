-- INCLUDE count
-- Tells the watchdog, the counters and the events of an end that was recorded. `end_`: agent incarnation node reason kind
-- charged detail max_events.
local function tell_exit(exits, counters, events, agent, end_, now)
  local record = redis.call('HMGET', agent, 'supervisor', 'schema')
  local supervisor = record[1] or ''
  redis.call('XADD', exits, '*', 'kind', 'exited', 'agent', end_.agent, 'incarnation', end_.incarnation, 'node', end_.node,
    'reason', end_.reason, 'charged', end_.charged, 'supervisor', supervisor, 'schema', record[2] or '',
    'at_ms', now, 'error', end_.detail)
  count(counters, 'exits_total|reason=' .. end_.kind, 1)
  event(events, end_.max_events, now, 'exited', 'agent', end_.agent, 'incarnation', end_.incarnation, 'node', end_.node,
    'supervisor', supervisor, 'reason', end_.reason, 'detail', end_.detail)
end
