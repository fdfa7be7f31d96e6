-- The reply `corrupt` for the first of `list` (key, type, key, type, ...) that holds another type; nil if all are right.
local function corrupt(list)
  for i = 1, #list, 2 do
    local found = redis.call('TYPE', list[i]).ok
    if found ~= 'none' and found ~= list[i + 1] then
      return {'corrupt', list[i], 'holds a ' .. found .. ' where a ' .. list[i + 1] .. ' belongs'}
    end
  end
end
