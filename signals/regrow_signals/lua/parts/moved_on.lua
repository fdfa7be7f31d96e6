-- What a commit's new cursor means for the record. Needs entry_ids.
-- The careful time, and what was being tried, end once the cursor has passed them; the fields are most often empty.
local function end_care(agent, careful, trying, cursor)
  if careful ~= '' and not (is_id(careful) and older(cursor, careful)) then redis.call('HSET', agent, 'careful_until', '') end
  if trying ~= '' then
    local tried = string.match(trying, '^(%d+%-%d+) ')
    if not tried or not older(cursor, tried) then redis.call('HSET', agent, 'trying', '') end
  end
end

-- A count of the record, grown; one that somebody damaged is left as it is.
local function added(count, by)
  local number = tonumber(count or '0')
  return number and string.format('%.0f', number + by) or count
end
