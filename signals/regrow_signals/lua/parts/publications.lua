-- What a commit publishes, and the subscriptions that it makes and ends. Needs corrupt, count, dead_letters, mailboxes,
-- directives, children, routing, subscriptions, subscribers, overflow. Whom a type reaches is found before anything is written:
-- `work.routes`, by type, as subscribers_of gives it.
DIRECTIVES.publish = {
  check = function(one, work)
    local type_name = one.words[1]
    if work.routes[type_name] then return nil end
    local found, wrong = subscribers_of(work.prefix, type_name)
    if wrong then return wrong end
    found.bound = tonumber(one.words[2])
    work.routes[type_name] = found
  end,
  write = function() end, -- the emits' part does: emits and publishes to one target keep their order
}

local function subscription_keys_fault(one, work)
  return subscription_fault(work.prefix, work.agent, one.words[1])
end

DIRECTIVES.subscribe = {
  check = function(one, work)
    local wrong = subscription_keys_fault(one, work)
    if wrong then return wrong end
    local full = subscription_bound(work.prefix, work.agent, one.words[1],
      {max_subscribers = tonumber(one.words[4]), max_patterns = tonumber(one.words[5])})
    if full then return refused_directive(one.words[6], 'subscriptions_full', full_text(full)) end
  end,
  write = function(one, work)
    subscribe(work.prefix, work.agent, one.words[1], one.words[2], one.words[3], 'call')
  end,
}

DIRECTIVES.unsubscribe = {
  check = subscription_keys_fault,
  write = function(one, work) unsubscribe(work.prefix, work.agent, one.words[1]) end,
}

local function field_of(fields, name)
  for i = 1, #fields, 2 do
    if fields[i] == name then return fields[i + 1] end
  end
  return ''
end

-- One signal to all whom its type reaches. `out`: work, boxes by name, grave, hold(box, fields), put(box, fields).
local function publish_from(out, fields)
  local work = out.work
  local type_name = field_of(fields, 'type')
  local route = work.routes[type_name] or {}
  count(work.counters, 'published_total|type=' .. work.type, 1)
  work.reached = work.reached + #route
  if route.bound and (#route > route.bound or work.reached > 10 * route.bound) then
    with_field(fields, 'target', '*', function(with)
      bury(out.grave, work.now, '', 'too_many_subscribers', #route .. ' subscribers; ' .. route.bound ..
        ' is the bound of one publish, and ten times that of a commit', 0, with)
    end)
    return
  end
  local function refuse(box, reason)
    with_field(fields, 'target', box.name, function(with) bury(out.grave, work.now, '', reason, '', 0, with) end)
  end
  local reached = 0
  for _, subscriber in ipairs(route) do
    local box = out.boxes[subscriber.agent]
    if box.gone == 'no_such_agent' or (box.birth and box.birth ~= subscriber.birth) then
      -- Deleted, or registered anew, since it subscribed.
      for _, pattern in ipairs(subscriber.patterns) do unsubscribe(work.prefix, subscriber.agent, pattern) end
    else
      reached = reached + 1
      local full = box.held > 0 or box.room <= 0
      if box.gone then
        refuse(box, box.gone)
      elseif not full or (subscriber.policy == 'latest' and box.held == 0 and drop_oldest(out.into, box.name, type_name)) then
        out.put(box, fields)
      elseif subscriber.policy == 'hold' or (subscriber.policy == 'latest' and box.held > 0) then
        out.hold(box, fields)
      else
        refuse(box, 'target_full')
      end
    end
  end
  if reached == 0 then count(work.counters, 'published_unrouted_total|type=' .. work.type, 1) end
end
