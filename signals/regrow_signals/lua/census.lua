-- census: some of the registered agents counted where they lie, by supervisor, type and status; nothing is written.
-- KEYS 1 agents zset       registered agents
-- ARGV 1 prefix            of all keys of the namespace: agents are known only from the zset
-- ARGV 2 cursor            of the last step; 0 for the first
-- ARGV 3 count             agents to look at, about
-- ARGV 4 most              agents named in each list at most
-- REPLY ok <cursor; 0: this was the last step> <groups> <queues> <busiest> <lettered> <down>
--        groups: { <supervisor> <type> <status> <agents> <backlog> <dead> <outbox> <accepted_ms of the oldest signal, or 0> } ...
--        queues: { <run queue> <agents in it> } ...     lists: { <agent> <supervisor> <type> <status> <worker> <backlog> <dead> } ...
-- REPLY corrupt <key> <why>
-- INCLUDE corrupt
-- INCLUDE ready
local agents = KEYS[1]
local prefix, most = ARGV[1], tonumber(ARGV[4])

local wrong = corrupt({agents, 'zset'})
if wrong then return wrong end
-- What is not as it should be is the doctor's to tell: here it counts as nothing.
local function length(kind, id)
  local found = redis.pcall('XLEN', prefix .. kind .. ':' .. id)
  return type(found) == 'number' and found or 0
end

local function accepted_ms(id)
  local first = redis.pcall('XRANGE', prefix .. 'mailbox:' .. id, '-', '+', 'COUNT', 1)[1]
  if type(first) ~= 'table' then return 0 end
  for i = 1, #first[2], 2 do
    if first[2][i] == 'at_ms' then return tonumber(first[2][i + 1]) or 0 end
  end
  return tonumber(string.match(first[1], '^%d+')) or 0
end

local RESTING = {idle = true, running = true, queued = true, starting = true, registered = true, stopping = true}
local groups, queues, lists = {}, {}, {busiest = {}, lettered = {}, down = {}}
local page = redis.call('ZSCAN', agents, ARGV[2], 'COUNT', ARGV[3])
for i = 1, #page[2], 2 do
  local id = page[2][i]
  local record = redis.pcall('HMGET', prefix .. 'agent:' .. id, 'supervisor', 'type', 'status', 'worker', 'class', 'schema')
  if record.err then record = {'', '', 'unreadable'} end
  local status = record[3] or ''
  local group = (record[1] or '') .. '\n' .. (record[2] or '') .. '\n' .. status
  local sums = groups[group]
  if not sums then
    sums = {record[1] or '', record[2] or '', status, 0, 0, 0, 0, 0}
    groups[group] = sums
  end
  local backlog, dead = length('mailbox', id), length('dead', id)
  sums[4], sums[5], sums[6], sums[7] = sums[4] + 1, sums[5] + backlog, sums[6] + dead, sums[7] + length('outbox', id)
  if backlog > 0 then
    local at = accepted_ms(id)
    if at > 0 and (sums[8] == 0 or at < sums[8]) then sums[8] = at end
  end
  if status == 'queued' then
    local queue = queue_of(record[5], record[6])
    queues[queue] = (queues[queue] or 0) + 1
  end
  local seen = {id, record[1] or '', record[2] or '', status, record[4] or '', backlog, dead}
  if backlog > 0 then table.insert(lists.busiest, seen) end
  if dead > 0 then table.insert(lists.lettered, seen) end
  if not RESTING[status] then table.insert(lists.down, seen) end
end

local function in_words(row)
  local words = {}
  for i = 1, #row do words[i] = type(row[i]) == 'number' and string.format('%.0f', row[i]) or row[i] end
  return words
end

-- The first few, those with the greatest number in a place of theirs where one is given.
local function first_of(list, place)
  if place then table.sort(list, function(a, b) return a[place] > b[place] end) end
  local found = {}
  for i = 1, math.min(most, #list) do found[i] = in_words(list[i]) end
  return found
end

local found = {}
for _, sums in pairs(groups) do found[#found + 1] = in_words(sums) end
local waiting = {}
for queue, count in pairs(queues) do waiting[#waiting + 1] = {queue, tostring(count)} end
return {'ok', page[1], found, waiting, first_of(lists.busiest, 6), first_of(lists.lettered, 7), first_of(lists.down)}
