-- INCLUDE entry_ids
-- INCLUDE count
-- What a new owner must know of the end before it: up to where it is careful, and what the tried signal was charged.
-- Changes `reply` (of parts/loaded.lua) accordingly; returns `corrupt` where a field cannot be read.
local function take_up(agent, mailbox, reply, clean, charge)
  local cursor, careful, trying = reply[7], reply[8], reply[9]
  local rewound = reply[21] ~= '' and reply[21] -- then postponed signals are in hand, which come before the cursor
  local entry, attempts, kills = string.match(trying, '^(%d+%-%d+) (%d+) (%d+)$')
  if trying ~= '' and not entry then return {'corrupt', agent, 'has an unreadable field trying'} end
  if careful ~= '' and not is_id(careful) then return {'corrupt', agent, 'has an unreadable field careful_until'} end
  if clean ~= '1' then careful = last_id(mailbox) end
  if careful ~= '' and not older(cursor, careful) and not rewound then careful = '' end
  if entry and older(rewound or cursor, entry) then
    if charge == 'attempt' then attempts = attempts + 1 end
    if charge == 'kill' then kills = kills + 1 end
    trying = entry .. ' ' .. attempts .. ' ' .. kills
    if careful == '' or older(careful, entry) then careful = entry end
  else
    trying = ''
    -- What is tried first is noted here: a round trip less. Not for a blocked agent, which may wait long before it tries.
    local first = careful ~= '' and not rewound and reply[13] ~= '1' and redis.call('XRANGE', mailbox, '(' .. cursor, '+', 'COUNT', 1)[1]
    if first and not older(careful, first[1]) then trying = first[1] .. ' 0 0' end
  end
  reply[8], reply[9] = careful, trying
end

local RECOVERY_BOUNDS = {'0.005', '0.01', '0.025', '0.05', '0.1', '0.25', '0.5', '1', '2.5', '5', '10', '30', '60', '+Inf'}

-- Death to running again: each falls into one bucket.
local function count_recovery(counters, clean, exit_ms, now)
  exit_ms = tonumber(exit_ms)
  if clean == '1' or not exit_ms or exit_ms > now then return end
  local bucket = 1
  while bucket < #RECOVERY_BOUNDS and now - exit_ms > tonumber(RECOVERY_BOUNDS[bucket]) * 1000 do bucket = bucket + 1 end
  count(counters, 'recovery_seconds_bucket|le=' .. RECOVERY_BOUNDS[bucket], 1)
  count(counters, 'recovery_seconds_sum_us', string.format('%.0f', (now - exit_ms) * 1000))
  count(counters, 'recovery_seconds_count', 1)
end
