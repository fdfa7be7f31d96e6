-- Ids of entries are two unsigned 64-bit numbers, compared as text: Lua's numbers are doubles.
local LAST_MS = '18446744073709551615'

local function is_id(text)
  return type(text) == 'string' and string.find(text, '^%d+%-%d+$') ~= nil
end

local function older(a, b)
  local a_ms, a_seq = string.match(a, '^(%d+)%-(%d+)$')
  local b_ms, b_seq = string.match(b, '^(%d+)%-(%d+)$')
  if #a_ms ~= #b_ms then return #a_ms < #b_ms end
  if a_ms ~= b_ms then return a_ms < b_ms end
  if #a_seq ~= #b_seq then return #a_seq < #b_seq end
  return a_seq < b_seq
end

-- The last id that the stream has given, also when that entry is gone; '0-0' where there is no stream.
local function last_id(key)
  if redis.call('EXISTS', key) == 0 then return '0-0' end
  local info = redis.call('XINFO', 'STREAM', key)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then return info[i + 1] end
  end
end

-- No room for another step's worth of ids after this one (a margin of 50,000 is kept).
local function exhausted(id)
  local ms, seq = string.match(id, '^(%d+)%-(%d+)$')
  return ms == LAST_MS and #seq == 20 and seq > '18446744073709500000'
end

-- The id to add the next entry under, so that it is never at or before the cursor: `*`, or an explicit one where the
-- stream was lost and the clock went back; nil where the stream is exhausted.
local function next_id(last, cursor, now)
  if exhausted(last) or exhausted(cursor) then return nil end
  local ms = string.match(cursor, '^(%d+)')
  if not older(last, cursor) or tonumber(ms) < now then return '*' end
  if #ms > 15 then return nil end
  return string.format('%.0f-0', tonumber(ms) + 1)
end
