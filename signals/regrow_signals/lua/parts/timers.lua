-- The directives Schedule and Cron (timer) and Cancel (cancel). Needs directives, timer_keys, dead_letters, entry_ids.
local function look_at_timer(one, work)
  local timer, timers, own, bell = one.keys[1], one.keys[2], one.keys[3], one.keys[4]
  local wrong = corrupt({timer, 'hash', timers, 'zset', own, 'set', bell, 'list'})
  if wrong then return wrong end
  one.id = one.words[1]
  one.declared = redis.call('HGET', timer, 'declared') == '1'
  work.timers = work.timers or {count = redis.call('SCARD', own)}
  if work.timers[one.id] == nil then work.timers[one.id] = redis.call('SISMEMBER', own, one.id) == 1 end
end

-- keys: timer, timers, own, bell. words: id, max_timers, after_ms, due_ms (one of them ''), then fields and values.
-- A recurring one has neither: whoever fires timers finds its first time.
DIRECTIVES.timer = {
  check = function(one, work)
    local wrong = look_at_timer(one, work)
    if wrong then return wrong end
    if exhausted(last_id(work.grave.dead)) then return {'corrupt', work.grave.dead, 'has used up its ids'} end
    local known = work.timers
    one.full = not known[one.id] and known.count >= tonumber(one.words[2])
    if one.declared or one.full or known[one.id] then return nil end
    known[one.id], known.count = true, known.count + 1
  end,
  write = function(one, work)
    local words, fields, letter = one.words, {}, {}
    for i = 5, #words, 2 do
      local name, value = words[i], words[i + 1]
      fields[#fields + 1], fields[#fields + 2] = name, value
      if name == 'set' then letter[#letter + 1], letter[#letter + 2] = 'id', value end
      if name == 'type' or name == 'data' then letter[#letter + 1], letter[#letter + 2] = name, value end
    end
    if one.declared or one.full then
      letter[#letter + 1], letter[#letter + 2] = 'source', work.agent
      bury(work.grave, work.now, '', one.full and 'timers_full' or 'declared_timer',
        one.full and words[2] .. ' timers are the bound' or one.id .. ' is declared by @every or @cron', 0, letter)
      return
    end
    local timer, timers = one.keys[1], one.keys[2]
    local due = tonumber(words[4]) or (tonumber(words[3]) and work.now + words[3])
    local look = string.format('%.0f', due or work.now)
    wake_for(timers, one.keys[4], tonumber(look))
    redis.call('DEL', timer)
    redis.call('HSET', timer, 'agent', work.agent, 'birth', work.birth, 'due_ms', due and look or '', 'set_ms', work.now, unpack(fields))
    redis.call('ZADD', timers, look, one.id)
    redis.call('SADD', one.keys[3], one.id)
  end,
}

-- keys: timer, timers, own, bell. words: id. One that is not there, or is declared, stays as it is.
DIRECTIVES.cancel = {
  check = function(one, work)
    local wrong = look_at_timer(one, work)
    if wrong then return wrong end
    if work.timers[one.id] then work.timers[one.id], work.timers.count = false, work.timers.count - 1 end
  end,
  write = function(one)
    if not one.declared then remove_timer(one.keys[1], one.keys[2], one.keys[3], one.id) end
  end,
}
