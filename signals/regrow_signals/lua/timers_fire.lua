-- timers_fire: what was decided about due timers: the signals into the mailboxes, each timer due again or gone.
-- Each timer stands by itself, and only while it is the one that was decided about: so a repeat does nothing.
-- KEYS 1 leader string      must hold our token
-- KEYS 2 timers zset        all timers by the time to look at them
-- KEYS 3 counters hash      what metrics are made of
-- KEYS 4 events stream      life events
-- ARGV 1 token              of the leader
-- ARGV 2 prefix             of all keys of the namespace: agents are known only from the timers
-- ARGV 3 max_mailbox        bound of a mailbox without one of its own
-- ARGV 4 extra_room         above it, for an agent's own timers
-- ARGV 5 max_dead           bound of dead letters
-- ARGV 6 held_timeout_ms    a signal for another agent that is full waits so long at most
-- ARGV 7 max_events         cap of the events
-- ARGV 8 firings            how many
-- ARGV ... lists            id set due next left_out why n (due time)..: next '' is none; why is not '' where it is dropped
-- REPLY ok <fired> <missed> <waiting> <dropped>
-- REPLY corrupt <key> <why>
-- REPLY refused not_leader
-- INCLUDE now_ms
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
-- INCLUDE mailboxes
-- INCLUDE replies
-- INCLUDE dead_letters
-- INCLUDE timer_keys
-- INCLUDE timer_firing
local leader = KEYS[1]
local timers = KEYS[2]
local counters = KEYS[3]
local events = KEYS[4]

local wrong = corrupt({leader, 'string', timers, 'zset'})
if wrong then return wrong end
if ARGV[1] == '' or redis.call('GET', leader) ~= ARGV[1] then return {'refused', 'not_leader'} end

local now = now_ms()
local shop = {prefix = ARGV[2], timers = timers, counters = counters, events = events, now = now, extra_room = tonumber(ARGV[4]),
  bounds = {max_mailbox = tonumber(ARGV[3]), max_dead = tonumber(ARGV[5])}, held_timeout = tonumber(ARGV[6]),
  max_events = ARGV[7], boxes = {}, owners = {}, tally = {}, done = {fired = 0, missed = 0, waiting = 0, dropped = 0}}
local at = 8
for _ = 1, tonumber(ARGV[8]) do
  local firing = {id = ARGV[at + 1], set = ARGV[at + 2], due = ARGV[at + 3], next = ARGV[at + 4], left_out = tonumber(ARGV[at + 5]),
    why = ARGV[at + 6], ticks = {}}
  local n = tonumber(ARGV[at + 7])
  at = at + 7
  for i = 1, n do firing.ticks[i] = {due = ARGV[at + 2 * i - 1], time = ARGV[at + 2 * i]} end
  at = at + 2 * n
  fire_timer(shop, firing)
end
for name, by in pairs(shop.tally) do count(counters, name, string.format('%.0f', by)) end
return {'ok', tostring(shop.done.fired), tostring(shop.done.missed), tostring(shop.done.waiting), tostring(shop.done.dropped)}
