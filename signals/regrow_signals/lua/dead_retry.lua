-- dead_retry: send a dead letter's signal again, under a new id: to whom it was for, which for an emit is its target.
-- KEYS 1 agent hash           the record of whom it is for
-- KEYS 2 mailbox stream       the mailbox of whom it is for
-- KEYS 3 dead stream          the dead letters it lies in
-- KEYS 4 fate hash            what became of the signal, where it lies
-- KEYS 5 counters hash        retried letters by agent type
-- ARGV 1 letter               the letter's stream id
-- ARGV 2 max_mailbox          bound of a mailbox whose agent names none of its own
-- ARGV 3 fate_bound           how many fates are kept
-- ARGV 4 target               whom it is for, if that is not whose dead letter it is; else ''
-- REPLY retried <new id> <entry> <birth>
-- REPLY refused other_target <target>
-- REPLY refused no_such_agent | no_such_letter <letter> | mailbox_full <length> <bound> | mailbox_exhausted
-- INCLUDE accept
-- INCLUDE ready
-- INCLUDE letter
-- INCLUDE count
local agent, mailbox, dead, fate, counters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local letter, max_mailbox, fate_bound, target = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local known = redis.call('HMGET', agent, 'birth', 'type', 'cursor', 'max_mailbox', 'isolation')
if not known[1] then return { 'refused', 'no_such_agent' } end
local own, fields = read_letter(dead, letter)
if not fields then return { 'refused', 'no_such_letter', letter } end
if (fields.target or '') ~= target then return { 'refused', 'other_target', fields.target or '' } end
local bound = tonumber(known[4] or '') or tonumber(max_mailbox)
local length = redis.call('XLEN', mailbox)
if length >= bound then return { 'refused', 'mailbox_full', tostring(length), tostring(bound) } end
redis.call('HLEN', fate)

-- "t-17" becomes "t-17:retry-1", that one "t-17:retry-2"; an id that would grow too long gives way to its letter's.
local id = fields.id or letter
local stem, number = string.match(id, '^(.*):retry%-(%d+)$')
if not stem then stem, number = id, '0' end
if #stem + #number > 180 then stem, number = 'letter:' .. letter, '0' end
local new = stem .. ':retry-' .. number_next(number)

local now = server_ms()
local words = { 'XADD', mailbox, entry_id(mailbox, known[3], now), 'id', new }
for place = 1, #own, 2 do
  if own[place] ~= 'id' then words[#words + 1], words[#words + 2] = own[place], own[place + 1] end
end
words[#words + 1], words[#words + 2] = 'at_ms', now
local entry = redis.pcall(unpack(words)) -- the fields of one letter
if type(entry) == 'table' then
  if string.find(entry.err, 'exhausted', 1, true) then return { 'refused', 'mailbox_exhausted' } end
  return entry
end
redis.call('XDEL', dead, letter)
if fields.id then settle_fate(fate, fields.id, 'retried ' .. new, fate_bound) end
if known[5] == 'pool' then make_ready(agent) end
count(counters, 'dead_retried_total|type=' .. known[2], 1)
return { 'retried', new, entry, known[1] }
