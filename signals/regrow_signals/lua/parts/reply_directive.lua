-- The directive Reply to a client. Needs replies and directives. Words: the asked signal's id, the answer; neither keys nor
-- words where the sender gave text that is no place.
DIRECTIVES.reply = {
  check = function() end,
  write = function(one, work)
    local outcome = one.keys[1] and put_reply(one.keys, one.words[1], one.words[2]) or 'unknown'
    count(work.counters, 'replies_total|type=' .. work.type .. '|outcome=' .. outcome, 1)
  end,
}
