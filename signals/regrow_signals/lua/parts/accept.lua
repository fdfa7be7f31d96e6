-- Functions that put an entry into a mailbox. Ids are compared as text: Lua's numbers hold 53 bits, stream ids 64.
local function id_parts(id)
  local ms, seq = string.match(id, '^(%d+)%-(%d+)$')
  return ms, seq
end

local function number_less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

-- One more than a number given as text.
local function number_next(text)
  local head, tail = string.match(text, '^(%d-)(9*)$')
  if head == '' then return '1' .. string.rep('0', #tail) end
  local last = string.byte(head, -1) - 48
  return string.sub(head, 1, -2) .. (last + 1) .. string.rep('0', #tail)
end

-- The id to ask of XADD: '*', unless the mailbox is gone (deleted by hand) and the cursor lies in the server's future.
-- An entry at or before the cursor would never be read.
local function entry_id(mailbox, cursor, now_ms)
  if redis.call('EXISTS', mailbox) == 1 then return '*' end
  local ms, seq = id_parts(cursor or '')
  if not ms or number_less(ms, now_ms) then return '*' end
  if seq == '18446744073709551615' then return number_next(ms) .. '-0' end
  return ms .. '-' .. number_next(seq)
end

local function server_ms()
  local time = redis.call('TIME')
  return string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end
