-- Replies to clients that asked. Needs count. The list holds one element, the first answer; a failure gives way to a later
-- answer, since a dead letter can be tried again. It expires with the memory of the asked signal's id, but not at once.
-- A damaged list or memory costs the reply, not the agent: pcall. `keys`: the list, seen and seen-old of the asked agent.
-- Returns given, repeated, or unknown: nobody asked so, or too long ago.
local REPLY_MS = 60000

local function is_failure(text)
  return string.sub(text, 1, 7) == '{"dead"'
end

local function put_reply(keys, id, text)
  local left = 0
  for i = 2, 3 do
    if redis.pcall('HEXISTS', keys[i], id) == 1 then left = math.max(left, redis.call('PTTL', keys[i]), REPLY_MS) end
  end
  if left == 0 then return 'unknown' end
  local before = redis.pcall('LINDEX', keys[1], 0)
  if type(before) == 'table' then return 'unknown' end
  if before and (is_failure(text) or not is_failure(before)) then return 'repeated' end
  if before then redis.call('LSET', keys[1], 0, text) else redis.call('RPUSH', keys[1], text) end
  redis.call('PEXPIRE', keys[1], left)
  return 'given'
end

-- Tells the client that waits at `place` (if one does) that its signal is a dead letter. `prefix` begins all keys.
local function reply_dead(prefix, place, reason, error)
  local agent, id = string.match(place, '^reply:([^#]+)#([^#]+)$')
  if not agent then return end
  local keys = {prefix .. 'reply:' .. agent .. '#' .. id, prefix .. 'seen:' .. agent, prefix .. 'seen-old:' .. agent}
  put_reply(keys, id, '{"dead":' .. cjson.encode(reason) .. ',"error":' .. cjson.encode(error) .. '}')
end
