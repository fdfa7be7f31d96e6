-- send: accept signals into mailboxes, each by itself: one refused or impossible disturbs no other.
-- KEYS 1 counters hash        accepted signals by agent type
-- KEYS ... boxes mixed        six a mailbox: agent hash, mailbox stream, dead stream, seen hash, seen-old hash, fate hash
-- ARGV 1 max_mailbox          bound of a mailbox whose agent names none of its own
-- ARGV 2 max_dead             bound of dead letters
-- ARGV 3 window_ms            how long ids are remembered at least
-- ARGV 4 max_ids              how many ids a generation holds
-- ARGV ... signals            for each: number of its mailbox (from 1), id, digest ('' = do not remember), count of
--                             words that follow, the entry's fields and values in turn
-- REPLY an array, for each signal one of
-- REPLY accepted <entry> <birth>
-- REPLY known <entry> <birth>
-- REPLY refused no_such_agent | mailbox_full <length> <bound> | mailbox_exhausted | dead_full <length> <bound> | id_conflict <id>
-- REPLY failed <the server's error, or WRONGTYPE and the key>
-- INCLUDE accept
-- INCLUDE boxes
local counters = KEYS[1]
local now = server_ms()
local bounds = { ARGV[1], ARGV[2], ARGV[3], ARGV[4] }
local boxes, accepted, replies = {}, {}, {}

for at = 2, #KEYS, 6 do boxes[#boxes + 1] = read_box_or_error(KEYS, at, bounds) end
local place = 5
while place <= #ARGV do
  local box, count = boxes[tonumber(ARGV[place])], tonumber(ARGV[place + 3])
  if box.err then
    replies[#replies + 1] = { 'failed', box.err }
  else
    local reply = accept(box, ARGV[place + 1], ARGV[place + 2], entry_words(place + 4, place + 3 + count, now), bounds, now)
    if reply[1] == 'accepted' then accepted[box.type] = (accepted[box.type] or 0) + 1 end
    replies[#replies + 1] = reply
  end
  place = place + 4 + count
end
-- A counter that was overwritten by hand refuses no signal.
for kind, count in pairs(accepted) do
  redis.pcall('HINCRBY', counters, 'signals_accepted_total|type=' .. kind, count)
end
return replies
