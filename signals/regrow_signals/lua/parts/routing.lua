-- The matcher, the same as in routing.py: `*` stands for one segment of a type, `**` for any number, also none.
-- A test holds the two equal, word for word, on patterns and types of every kind.
local function segments_of(text)
  local found = {}
  for segment in string.gmatch(text, '[^.]+') do found[#found + 1] = segment end
  return found
end

-- Greedy with one way back, as for globs: linear in practice, never exponential.
local function fits(pattern, segments)
  local at, place, star, resume = 1, 1, nil, 1
  while at <= #segments do
    local wanted = pattern[place]
    if wanted == '**' then
      star, resume = place, at
      place = place + 1
    elseif wanted and (wanted == '*' or wanted == segments[at]) then
      at, place = at + 1, place + 1
    elseif star then
      resume = resume + 1
      at, place = resume, star + 1
    else
      return false
    end
  end
  for rest = place, #pattern do
    if pattern[rest] ~= '**' then return false end
  end
  return true
end

-- How specific: more names first, then fewer `**`, then more `*`, then whose names stand further left.
local function rank_of(pattern)
  local names, singles, anys = 0, 0, 0
  local wild = {}
  for place, segment in ipairs(pattern) do
    if segment == '**' then
      anys, wild[place] = anys + 1, 2
    elseif segment == '*' then
      singles, wild[place] = singles + 1, 1
    else
      names, wild[place] = names + 1, 0
    end
  end
  return {-names, anys, -singles, unpack(wild)} -- a pattern has 200 characters at most
end

-- Below 0: `a` is the more specific rank; 0: equal; above: `b` is.
local function compare_ranks(a, b)
  for place = 1, math.min(#a, #b) do
    if a[place] ~= b[place] then return a[place] - b[place] end
  end
  return #a - #b
end
