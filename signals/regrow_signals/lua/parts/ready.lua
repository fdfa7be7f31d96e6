-- Queues a pooled agent with waiting signals for the slots of its class, and rings for one of them. Called after a step's
-- own writes by whatever adds to a mailbox or frees an agent; who is queued, claimed, blocked or has ended is left as it is.
-- Best effort: a damaged list costs the wake-up, never the step. A list that was lost is made anew by the next signal.
local function ring_for(tag, queue)
  local bell = tag .. 'bell:' .. queue
  if redis.pcall('LLEN', bell) == 0 then redis.pcall('LPUSH', bell, '1') end
end

-- The agent's other key of that kind.
local function key_beside(agent, kind)
  local tag, id = string.match(agent, '^({[^}]*}:)agent:(.+)$')
  return tag .. kind .. ':' .. id, tag, id
end

-- The queue of a class for a stored schema: what only newer code reads waits in one of its own. One that is no number is
-- in the first, where a slot says that it cannot be read.
local function queue_of(class, schema)
  if schema == '0' or not string.find(schema or '', '^%d+$') then schema = '1' end
  return (class or '') .. '@' .. schema
end

local function make_ready(agent)
  local record = redis.call('HMGET', agent, 'isolation', 'owner', 'ended', 'incarnation', 'queued', 'blocked', 'class', 'schema')
  if record[1] ~= 'pool' or (record[2] or '') ~= '' or record[3] == record[4] or record[6] == '1' then return end
  local _, tag, id = key_beside(agent, 'agent')
  local queue = queue_of(record[7], record[8])
  local ready = tag .. 'ready:' .. queue
  if record[5] == '1' and redis.call('EXISTS', ready) == 1 then return end
  if type(redis.pcall('RPUSH', ready, id)) == 'table' then return end
  redis.call('HSET', agent, 'queued', '1', 'status', 'queued')
  ring_for(tag, queue)
end

-- Whether signals wait that were not looked at in the agent's mode: after its cursor, or where it went back to.
local function has_work(agent)
  local mailbox = key_beside(agent, 'mailbox')
  if redis.call('XLEN', mailbox) == 0 then return false end
  local record = redis.call('HMGET', agent, 'postponed', 'rewound', 'cursor')
  if (record[1] or '0') == '0' or (record[2] or '') ~= '' then return true end
  local first = redis.pcall('XRANGE', mailbox, '(' .. (record[3] or '0-0'), '+', 'COUNT', 1)
  return first.err ~= nil or #first > 0 -- whoever claims it says what is wrong with its cursor
end
