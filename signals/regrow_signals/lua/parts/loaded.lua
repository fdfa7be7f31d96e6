-- INCLUDE entry_ids
-- What an owner needs of its agent's record (claim, reload), in the order that the typed callers read; or `corrupt`.
local LOADED = {'type', 'birth', 'state', 'schema', 'version', 'cursor', 'careful_until', 'trying', 'init', 'max_attempts',
  'max_kills', 'blocked', 'supervisor', 'max_state', 'guard', 'parent', 'exit_reason', 'max_mailbox', 'postponed', 'rewound'}

-- `record`: the values of these fields.
local function loaded_of(agent, record)
  for i = 1, 6 do
    if not record[i] then return {'corrupt', agent, 'has no field ' .. LOADED[i]} end
  end
  if not is_id(record[6]) then return {'corrupt', agent, 'has an unreadable cursor'} end
  if not string.find(record[5], '^%d+$') then return {'corrupt', agent, 'has an unreadable version'} end
  local reply = {'ok'}
  for i = 1, #LOADED do reply[i + 1] = record[i] or '' end
  if not string.find(reply[20], '^%d+$') then reply[20] = '' end
  if not is_id(reply[21]) then reply[21] = '' end
  return reply
end

local function loaded(agent)
  return loaded_of(agent, redis.call('HMGET', agent, unpack(LOADED)))
end
