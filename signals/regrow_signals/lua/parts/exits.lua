-- One whose reading of its state ran over the deadline may have been starved of a processor, so it is tried again. The
-- reason says from where it read: if the next end says the same, with nothing committed in between, it cannot be read.
local function tell_slow_reading(exit, version, cursor, before)
  if exit.reason ~= 'deadline:reading' then return end
  exit.reason = 'deadline:reading version ' .. (version or '') .. ' at ' .. (cursor or '')
  if exit.reason == before then
    exit.reason, exit.kind = 'unreadable_state:reading it took longer than the deadline', 'unreadable_state'
  end
end

-- Records the end of the agent's current incarnation; 'stale' or 'known' where there is nothing to record.
-- Needs entry_ids. `exit`: incarnation reason kind charge error in_hand; reason and kind are what is told afterwards. A process that was `superseded` does not own the
-- agent: its end is not the end of the life that bears the same number, unless nobody owns it: Redis went back to
-- before its claim, and nobody else will ever claim that life.
local function record_exit(agent, exit, now)
  local record = redis.call('HMGET', agent, 'incarnation', 'ended', 'cursor', 'trying', 'owner', 'isolation', 'rewound',
    'version', 'exit_reason')
  local owned = record[5] and record[5] ~= ''
  if record[1] ~= exit.incarnation or (owned and string.find(exit.reason, '^superseded')) then return 'stale' end
  if record[2] == exit.incarnation then return 'known' end
  tell_slow_reading(exit, record[8], record[3], record[9])
  redis.call('HSET', agent, 'ended', exit.incarnation, 'owner', '', 'pid', '', 'status', 'exited', 'exit_reason', exit.reason)
  if record[6] == 'pool' then redis.call('HSET', agent, 'queued', '', 'worker', '') end
  if exit.error ~= '' then redis.call('HSET', agent, 'last_error', exit.error) end
  -- A life that never claimed had nothing in hand: the charge and the moment of the death before it stand.
  if owned then
    redis.call('HSET', agent, 'exit_ms', now, 'charge', exit.charge)
    local tried = string.match(record[4] or '', '^(%d+%-%d+) ')
    local from = is_id(record[7]) and record[7] or record[3] -- postponed signals were in hand, or those after the cursor
    if is_id(exit.in_hand) and is_id(from) and older(from, exit.in_hand) and tried ~= exit.in_hand then
      redis.call('HSET', agent, 'trying', exit.in_hand .. ' 0 0')
    end
  end
  return 'recorded'
end
