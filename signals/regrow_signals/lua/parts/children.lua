-- Spawn, StopChild, and a child's change of parent. Needs directives, corrupt, entry_ids, mailboxes, register, family.

-- The signal whose directive cannot be carried out, by its acceptance id; it is planned again as a dead letter.
local function refused_directive(entry, reason, why)
  return {'refused', 'directive', entry, reason, why}
end

-- The tag is this child's from here on, if no other has it and there is room for one more.
local function take_tag(work, entry, tag, id, most)
  work.tags = work.tags or {}
  local holder = work.tags[tag] or redis.call('HGET', work.key, 'child:' .. tag)
  if holder and holder ~= id then
    return refused_directive(entry, 'tag_in_use', 'tag ' .. tag .. ' is that of ' .. holder)
  end
  if not holder then
    work.more_children = (work.more_children or 0) + 1
    local children = tonumber(redis.call('HGET', work.key, 'children') or '0') or 0
    if children + work.more_children > most then
      return refused_directive(entry, 'too_many_children', children .. ' children live; ' .. most .. ' may')
    end
  end
  work.tags[tag] = id
end

-- keys: the child's record, mailbox, dead letters; exits; agents. words: entry, tag, id, path of its supervisor, spec
-- (JSON), request, registration (JSON, as in create), max_children.
DIRECTIVES.spawn = {
  early = true,
  check = function(one, work)
    local child, mailbox, dead, exits, agents = unpack(one.keys)
    local entry, tag, id = one.words[1], one.words[2], one.words[3]
    local wrong = corrupt({child, 'hash', mailbox, 'stream', dead, 'stream', exits, 'stream', agents, 'zset'})
    if wrong then return wrong end
    if exhausted(last_id(exits)) then return {'corrupt', exits, 'has used up its ids'} end
    work.tags = work.tags or {}
    one.new = cjson.decode(one.words[7])
    local record = redis.call('HMGET', child, 'type', 'parent', 'tag')
    if record[1] and (record[2] or '') ~= work.agent then
      return refused_directive(entry, 'id_in_use', id .. ' is an agent that ' .. work.agent .. ' did not spawn')
    end
    if record[1] and record[1] ~= one.new.type then
      return refused_directive(entry, 'id_in_use', id .. ' is registered as a ' .. record[1])
    end
    local before = work.opened[id] and work.opened[id].tag or record[3]
    if before and before ~= tag and (work.tags[before] or redis.call('HGET', work.key, 'child:' .. before)) == id then
      return refused_directive(entry, 'id_in_use', id .. ' has the tag ' .. before)
    end
    wrong = take_tag(work, entry, tag, id, tonumber(one.words[8]))
    if wrong then return wrong end
    if not record[1] then work.opened[id] = work.opened[id] or one.new end
    one.new.tag = tag
  end,
  write = function(one, work)
    local child, mailbox, _, exits, agents = unpack(one.keys)
    local tag, id = one.words[2], one.words[3]
    register(child, agents, id, one.new, mailbox, work.now)
    bind_child(work.key, tag, id)
    redis.call('XADD', exits, '*', 'kind', 'request', 'request', one.words[6], 'op', 'spawn', 'at_ms', work.now,
      'path', one.words[4], 'child', id, 'parent', work.agent, 'spec', one.words[5])
  end,
}

-- keys: exits. words: tag, reason, request. A tag that no child has means nothing.
DIRECTIVES.stop_child = {
  early = true,
  check = function(one, _)
    local wrong = corrupt({one.keys[1], 'stream'})
    if wrong then return wrong end
    if exhausted(last_id(one.keys[1])) then return {'corrupt', one.keys[1], 'has used up its ids'} end
  end,
  write = function(one, work)
    local id = redis.call('HGET', work.key, 'child:' .. one.words[1])
    if not id then return end
    redis.call('XADD', one.keys[1], '*', 'kind', 'request', 'request', one.words[3], 'op', 'stop_child', 'at_ms', work.now,
      'child', id, 'parent', work.agent, 'reason', one.words[2])
  end,
}

-- keys: the child's record; exits. words: entry, id, tag, policy, request, max_children. Whether it is an orphan that
-- lives, the watchdog says.
DIRECTIVES.adopt = {
  early = true,
  check = function(one, work)
    local child, exits = one.keys[1], one.keys[2]
    local entry, id, tag = one.words[1], one.words[2], one.words[3]
    local wrong = corrupt({child, 'hash', exits, 'stream'})
    if wrong then return wrong end
    if exhausted(last_id(exits)) then return {'corrupt', exits, 'has used up its ids'} end
    local record = redis.call('HMGET', child, 'type', 'tag')
    if not record[1] then return refused_directive(entry, 'no_such_child', id .. ' is no agent') end
    if not record[2] then return refused_directive(entry, 'not_an_orphan', id .. ' was not spawned by an agent') end
    return take_tag(work, entry, tag, id, tonumber(one.words[6]))
  end,
  write = function(one, work)
    bind_child(work.key, one.words[3], one.words[2])
    redis.call('XADD', one.keys[2], '*', 'kind', 'request', 'request', one.words[5], 'op', 'adopt', 'at_ms', work.now,
      'child', one.words[2], 'parent', work.agent, 'tag', one.words[3], 'on_parent_death', one.words[4])
  end,
}

-- words: the parent from here on, '' is none, and its tag. It changes with the signal that says so, as the state does.
DIRECTIVES.parent = {
  check = function() end,
  write = function(one, work)
    redis.call('HSET', work.key, 'parent', one.words[1])
    if one.words[2] ~= '' then redis.call('HSET', work.key, 'tag', one.words[2]) end
  end,
}
