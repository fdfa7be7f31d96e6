-- create: send to an agent that may not be there yet: registered, its start asked for and the signal accepted in one step.
-- KEYS 1 counters hash       accepted signals by agent type
-- KEYS 2 agents zset         registered agents
-- KEYS 3 exits stream        the watchdog's mailbox
-- KEYS 4 supervisor hash     the dynamic supervisor that is to start it
-- KEYS 5 agent hash          the agent's record
-- KEYS 6 mailbox stream      its mailbox
-- KEYS 7 dead stream         its dead letters
-- KEYS 8 seen hash           remembered signal ids
-- KEYS 9 seen_old hash       the generation before
-- KEYS 10 fate hash          what became of signals
-- ARGV 1 max_mailbox         bound of a mailbox whose agent names none of its own
-- ARGV 2 max_dead            bound of dead letters
-- ARGV 3 window_ms           how long ids are remembered at least
-- ARGV 4 max_ids             how many ids a generation holds
-- ARGV 5 max_exits           bound of the watchdog's mailbox
-- ARGV 6 agent_id            the agent
-- ARGV 7 path                of the supervisor
-- ARGV 8 spec                the child's stored form, JSON
-- ARGV 9 request             id of the request to start it
-- ARGV 10 registration       JSON: fresh, fields and first, names and values in turn, strings only; birth, type, max_mailbox
-- ARGV 11 id                 the signal's
-- ARGV 12 digest             of its content ('' = do not remember)
-- ARGV ... fields            the entry's fields and values in turn
-- REPLY accepted <entry> <birth>
-- REPLY known <entry> <birth>
-- REPLY corrupt <key> <why>
-- REPLY failed <the server's error>
-- REPLY refused noproc <path> | supervisor_down <path> <status> | not_dynamic <path> <strategy> | watchdog_busy <n> <bound>
-- REPLY refused mailbox_full <length> <bound> | mailbox_exhausted | dead_full <length> <bound> | id_conflict <id>
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
-- INCLUDE accept
-- INCLUDE boxes
-- INCLUDE mailboxes
-- INCLUDE subscriptions
-- INCLUDE register
local counters = KEYS[1]
local agents, exits, supervisor = KEYS[2], KEYS[3], KEYS[4]
local agent, mailbox, dead = KEYS[5], KEYS[6], KEYS[7]
local seen, seen_old, fate = KEYS[8], KEYS[9], KEYS[10]

local wrong = corrupt({agents, 'zset', exits, 'stream', supervisor, 'hash', agent, 'hash', mailbox, 'stream',
  dead, 'stream', seen, 'hash', seen_old, 'hash', fate, 'hash'})
if wrong then return wrong end
local now = server_ms()
local bounds = { ARGV[1], ARGV[2], ARGV[3], ARGV[4] }
local box = read_box(KEYS, 5, bounds)
local absent = redis.call('EXISTS', agent) == 0
local new
if absent then
  local record = redis.call('HMGET', supervisor, 'status', 'strategy')
  if not record[1] then return { 'refused', 'noproc', ARGV[7] } end
  if record[2] ~= 'dynamic' then return { 'refused', 'not_dynamic', ARGV[7], record[2] or 'unknown' } end
  if record[1] ~= 'running' and record[1] ~= 'starting' then return { 'refused', 'supervisor_down', ARGV[7], record[1] } end
  local length = redis.call('XLEN', exits)
  if length >= tonumber(ARGV[5]) then return { 'refused', 'watchdog_busy', tostring(length), ARGV[5] } end
  if exhausted(last_id(exits)) then return { 'corrupt', exits, 'has used up its ids' } end
  if exhausted(last_id(mailbox)) then return { 'refused', 'mailbox_exhausted' } end
  new = cjson.decode(ARGV[10])
  box.birth, box.type, box.cursor = new.birth, new.type, '0-0'
  box.bound = tonumber(new.max_mailbox) or tonumber(ARGV[1])
  box.before = function() register(agent, agents, ARGV[6], new, mailbox, now) end
end

local reply = accept(box, ARGV[11], ARGV[12], entry_words(13, #ARGV, now), bounds, now)
if reply[1] ~= 'accepted' and reply[1] ~= 'known' then return reply end
if absent then
  if reply[1] == 'known' then box.before() end
  redis.call('XADD', exits, '*', 'kind', 'request', 'request', ARGV[9], 'op', 'create', 'at_ms', now,
    'path', ARGV[7], 'child', ARGV[6], 'spec', ARGV[8])
end
if reply[1] == 'accepted' then redis.pcall('HINCRBY', counters, 'signals_accepted_total|type=' .. box.type, 1) end
return reply
