-- Directives of other kinds than emits and effects. Each kind has a part of its own, included after this one, that sets
-- DIRECTIVES.<kind> = {check = function(one, work), write = function(one, work), early = true or nil}.
-- `one`: keys, words (lists, as its Python class lays them out), and what check notes for write. check reads only, and
-- returns nil or an error reply; write only writes. Early ones are written before the emits, the others after them.
-- `work`: agent, key (its record), type, birth, incarnation, now, counters, events, max_events, grave (for `bury`);
-- `opened`: registrations that an early one makes in this step, by agent.
local DIRECTIVES = {}

local function read_directives(n, at, key)
  local list = {}
  for i = 1, n do
    local keys, words = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
    local one = {kind = ARGV[at + 1], keys = {}, words = {}}
    for k = 1, keys do one.keys[k] = KEYS[key + k] end
    for w = 1, words do one.words[w] = ARGV[at + 3 + w] end
    key, at = key + keys, at + 3 + words
    list[i] = one
  end
  return list, at
end

local function in_order(list, early, call)
  for _, one in ipairs(list) do
    local kind = DIRECTIVES[one.kind]
    if (kind.early or false) == early then
      local wrong = call(kind, one)
      if wrong then return wrong end
    end
  end
end

-- As they are written: the early ones first.
local function check_directives(list, work)
  local function check(kind, one) return kind.check(one, work) end
  return in_order(list, true, check) or in_order(list, false, check)
end

local function write_directives(list, work, early)
  in_order(list, early, function(kind, one) kind.write(one, work) end)
end
