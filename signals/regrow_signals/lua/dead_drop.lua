-- dead_drop: give up one dead letter for good.
-- KEYS 1 agent hash           the agent's record
-- KEYS 2 dead stream          its dead letters
-- KEYS 3 fate hash            what became of the signal
-- KEYS 4 counters hash        dropped letters by agent type
-- ARGV 1 letter               the letter's stream id
-- ARGV 2 fate_bound           how many fates are kept
-- REPLY dropped <signal id>
-- REPLY refused no_such_agent | no_such_letter <letter>
-- INCLUDE letter
-- INCLUDE count
local agent, dead, fate, counters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local letter, fate_bound = ARGV[1], ARGV[2]
local kind = redis.call('HGET', agent, 'type')
if not kind then return { 'refused', 'no_such_agent' } end
local _, fields = read_letter(dead, letter)
if not fields then return { 'refused', 'no_such_letter', letter } end
redis.call('HLEN', fate)
redis.call('XDEL', dead, letter)
if fields.id then settle_fate(fate, fields.id, 'dropped', fate_bound) end
count(counters, 'dead_dropped_total|type=' .. kind, 1)
return { 'dropped', fields.id or '' }
