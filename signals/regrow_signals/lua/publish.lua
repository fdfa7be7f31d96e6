-- publish: a signal goes to everyone who subscribes to its type, to each by itself: one that is full disturbs no other.
-- KEYS 1 counters hash          what metrics are made of
-- KEYS 2 events stream          life events
-- KEYS 3 subscriptions hash     patterns
-- KEYS 4 wildcards set          patterns with wildcards
-- KEYS 5 subscribers hash       of the type itself
-- ARGV 1 prefix                 of all keys of the namespace: subscribers are known only here
-- ARGV 2 type_name              of the signal
-- ARGV 3 max_subscribers        bound of whom one publish reaches
-- ARGV 4 max_events             cap of the events
-- ARGV 5 max_mailbox            bound of a mailbox whose agent names none of its own
-- ARGV 6 max_dead               bound of dead letters
-- ARGV 7 window_ms              how long ids are remembered at least
-- ARGV 8 max_ids                how many ids a generation holds
-- ARGV 9 id                     the signal's
-- ARGV 10 digest                of its content
-- ARGV ... fields               the entry's fields and values in turn
-- REPLY ok <receipt..>          for each subscriber in order: its id, then what send says of it
-- REPLY corrupt <key> <why>
-- REPLY refused too_many_subscribers <n> <bound>
-- INCLUDE corrupt
-- INCLUDE count
-- INCLUDE entry_ids
-- INCLUDE replies
-- INCLUDE dead_letters
-- INCLUDE accept
-- INCLUDE boxes
-- INCLUDE routing
-- INCLUDE subscriptions
-- INCLUDE subscribers
-- INCLUDE overflow
local counters = KEYS[1]
local events = KEYS[2]
local subscriptions = KEYS[3]
local prefix, type_name = ARGV[1], ARGV[2]

local wrong = corrupt({subscriptions, 'hash'})
if wrong then return wrong end
local subscribers
subscribers, wrong = subscribers_of(prefix, type_name)
if wrong then return wrong end
if #subscribers > tonumber(ARGV[3]) then
  return {'refused', 'too_many_subscribers', tostring(#subscribers), ARGV[3]}
end

local now = server_ms()
local bounds = {ARGV[5], ARGV[6], ARGV[7], ARGV[8]}
local into = {prefix = prefix, events = events, counters = counters, max_events = ARGV[4], max_dead = tonumber(ARGV[6]),
  now = now}

local words = entry_words(11, #ARGV, now)
local agents, mailboxes, letters = prefix .. 'agent:', prefix .. 'mailbox:', prefix .. 'dead:'
local seen, seen_old, fates = prefix .. 'seen:', prefix .. 'seen-old:', prefix .. 'fate:'

local function deliver(subscriber)
  local agent = subscriber.agent
  local names = {agents .. agent, mailboxes .. agent, letters .. agent, seen .. agent, seen_old .. agent, fates .. agent}
  local box = read_box_or_error(names, 1, bounds, ARGV[9])
  if box.err then return {'failed', box.err} end
  if (box.birth or '') ~= subscriber.birth then return nil end
  if subscriber.policy == 'latest' and box.length >= box.bound and not known(box, ARGV[9], ARGV[10])
    and drop_oldest(into, agent, type_name) then
    box.length = box.length - 1
  end
  return accept(box, ARGV[9], ARGV[10], words, bounds, now), box.type
end

local reply, accepted = {'ok'}, {}
for _, subscriber in ipairs(subscribers) do
  local said, agent_type = deliver(subscriber)
  if said then
    if said[1] == 'accepted' then accepted[agent_type] = (accepted[agent_type] or 0) + 1 end
    reply[#reply + 1] = {subscriber.agent, said[1], said[2], said[3], said[4]}
  else
    -- Deleted, or registered anew, since it subscribed.
    for _, pattern in ipairs(subscriber.patterns) do unsubscribe(prefix, subscriber.agent, pattern) end
  end
end
for agent_type, n in pairs(accepted) do count(counters, 'signals_accepted_total|type=' .. agent_type, n) end
count(counters, 'published_total|type=client', 1)
if #reply == 1 then count(counters, 'published_unrouted_total|type=client', 1) end
return reply
