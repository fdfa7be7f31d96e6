-- Monitor and Demonitor. Needs directives, corrupt, entry_ids, mailboxes, children. A monitor lies in the watched agent's
-- record; notices.lua says how, and who is told.

-- keys: the watched agent's record; our mailbox, our dead letters. words: entry, agent, id of the notice, its type, data
-- where there is nothing to watch, bound.
DIRECTIVES.monitor = {
  check = function(one, work)
    local watched = one.keys[1]
    if corrupt({watched, 'hash'}) then
      one.there = false
    else
      local record = redis.call('HMGET', watched, 'type', 'incarnation', 'ended')
      one.there = work.opened[one.words[2]] ~= nil or (record[1] and record[2] ~= record[3])
    end
    if one.there then
      local others, own = 0, 'monitor:' .. work.agent
      for _, name in ipairs(redis.call('HKEYS', watched)) do
        if string.find(name, '^monitor:') and name ~= own then others = others + 1 end
      end
      if others >= tonumber(one.words[6]) then
        return refused_directive(one.words[1], 'too_many_monitors', others .. ' agents watch ' .. one.words[2])
      end
    else
      work.own_box = work.own_box or
        look_at_mailbox(work.key, one.keys[2], one.keys[3], {max_mailbox = 0, max_dead = 0}, work.now)
      if work.own_box.gone then return {'corrupt', one.keys[2], 'takes no entry: ' .. work.own_box.gone} end
    end
  end,
  write = function(one, work)
    if one.there then
      redis.call('HSET', one.keys[1], 'monitor:' .. work.agent, one.words[3] .. ' ' .. work.birth)
    else
      -- The commit's own box where there is one: two views of one mailbox would ask for the same id.
      put_in_mailbox(work.boxes[work.agent] or work.own_box, {'at_ms', work.now, 'id', one.words[3], 'type', one.words[4],
        'source', 'regrow', 'data', one.words[5], 'notice', '1'})
    end
  end,
}

-- keys: the watched agent's record.
DIRECTIVES.demonitor = {
  check = function(one, _) one.there = not corrupt({one.keys[1], 'hash'}) end,
  write = function(one, work)
    if one.there then redis.call('HDEL', one.keys[1], 'monitor:' .. work.agent) end
  end,
}
