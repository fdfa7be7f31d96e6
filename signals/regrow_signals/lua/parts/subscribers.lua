-- Whom a published signal reaches. Needs corrupt, routing, subscriptions.
-- Fitting patterns with their ranks, the most specific first; or a `corrupt` reply as the second value.
local function fitting_patterns(prefix, kind)
  local wrong = corrupt({prefix .. 'wildcards', 'set', prefix .. 'subscribers:' .. kind, 'hash'})
  if wrong then return nil, wrong end
  local segments = segments_of(kind)
  local found = {{text = kind, rank = rank_of(segments)}}
  for _, text in ipairs(redis.call('SMEMBERS', prefix .. 'wildcards')) do
    local pattern = segments_of(text)
    if is_wild(text) and fits(pattern, segments) then
      wrong = corrupt({prefix .. 'subscribers:' .. text, 'hash'})
      if wrong then return nil, wrong end
      found[#found + 1] = {text = text, rank = rank_of(pattern)}
    end
  end
  table.sort(found, function(a, b) return compare_ranks(a.rank, b.rank) < 0 end)
  local place = 1
  for i, pattern in ipairs(found) do
    if i > 1 and compare_ranks(found[i - 1].rank, pattern.rank) ~= 0 then place = i end
    pattern.place = place
  end
  return found
end

-- Whom a signal of this type reaches: by priority, then specificity, then order of registration; each agent once.
-- A list of {agent, policy, birth, patterns (all of its own)}; or a `corrupt` reply as the second value.
local function subscribers_of(prefix, kind)
  local patterns, wrong = fitting_patterns(prefix, kind)
  if wrong then return nil, wrong end
  local all = {}
  for _, pattern in ipairs(patterns) do
    local flat = redis.call('HGETALL', prefix .. 'subscribers:' .. pattern.text)
    for i = 1, #flat, 2 do
      local priority, order, policy, birth = string.match(flat[i + 1], '^(%-?%d+) (%d+) (%a+) (%S*)$')
      if priority then
        all[#all + 1] = {agent = flat[i], priority = tonumber(priority), place = pattern.place,
          order = tonumber(order), policy = policy, birth = birth, pattern = pattern.text}
      end
    end
  end
  table.sort(all, function(a, b)
    if a.priority ~= b.priority then return a.priority > b.priority end
    if a.place ~= b.place then return a.place < b.place end
    if a.order ~= b.order then return a.order < b.order end
    return a.agent .. ' ' .. a.pattern < b.agent .. ' ' .. b.pattern
  end)
  local found, at = {}, {}
  for _, one in ipairs(all) do
    -- By birth: what an agent of this id subscribed to before it was deleted is not the living one's.
    local whom = one.agent .. ' ' .. one.birth
    local first = at[whom]
    if first then
      first.patterns[#first.patterns + 1] = one.pattern
    else
      one.patterns = {one.pattern}
      at[whom] = one
      found[#found + 1] = one
    end
  end
  return found
end
