-- One dead letter: its fields, split into the signal's own and the letter's, and the entry as a reply says it.
local OF_THE_LETTER = {
  entry = true, reason = true, error = true, attempts = true, at_ms = true, dead_ms = true, target = true,
}

local function read_letter(dead, entry)
  local found = redis.call('XRANGE', dead, entry, entry)[1]
  if not found then return nil end
  local own, fields = {}, {}
  for place = 1, #found[2], 2 do
    local name, value = found[2][place], found[2][place + 1]
    if OF_THE_LETTER[name] then
      fields[name] = value
    else
      own[#own + 1], own[#own + 2] = name, value
      if name == 'id' then fields.id = value end
    end
  end
  return own, fields
end

-- Settled fates are bounded: over the bound a few of them, picked at random, are forgotten, and that is noted.
local function settle_fate(fate, id, what, bound)
  redis.call('HSET', fate, id, what)
  if redis.call('HLEN', fate) <= tonumber(bound) then return end
  for _, other in ipairs(redis.call('HRANDFIELD', fate, 20)) do
    local value = redis.call('HGET', fate, other)
    if other ~= id and other ~= '.forgot' and string.sub(value, 1, 5) ~= 'dead ' then
      redis.call('HDEL', fate, other)
      redis.call('HSET', fate, '.forgot', '1')
    end
  end
end
