-- Tags of effects, and CancelEffect. Needs directives, and what cancel_tagged needs. Late ones, in the order they were asked
-- for: a cancel meets what was tagged before it, not what the same step orders after it.
local function canceller()
-- INCLUDE cancel_tagged
  return {cancel = cancel_tagged, wrong = tags_corrupt}
end

-- words: effect, tag.
DIRECTIVES.effect_tag = {
  check = function(one) return corrupt({one.keys[1], 'hash', one.keys[2], 'hash'}) end,
  write = function(one)
    redis.call('HSET', one.keys[1], one.words[1], one.words[2])
    redis.call('HSET', one.keys[2], 'tag', one.words[2])
  end,
}

-- words: tag, name ('' for all).
DIRECTIVES.effect_cancel = {
  check = function(one, work)
    one.tools = canceller()
    return one.tools.wrong(work.prefix, work.agent)
  end,
  write = function(one, work) one.tools.cancel(work.prefix, work.agent, one.words[1], one.words[2], work.now) end,
}
