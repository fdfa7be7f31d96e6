-- The journal: one entry for each transition: what came of it, and the signal, so that it can be run again. A journal that
-- takes no entry any more costs the journal, not the agent: pcall. Words of a transition in ARGV: entry version directives
-- digest outcome signal type at_ms source data n word.. ; data is '' where it is too large, the words are further fields.
-- The last one trims the journal to about `length` entries. Returns where the words end; nil, and nothing is written, where it
-- is no stream.
local function write_journal(journal, n, at, length)
  for left = n, 1, -1 do
    local a, more, added = at, tonumber(ARGV[at + 11]), nil
    at = at + 11 + more
    if more == 0 and left > 1 and ARGV[a + 10] ~= '' then
      added = redis.pcall('XADD', journal, '*', 'entry', ARGV[a + 1], 'version', ARGV[a + 2], 'directives', ARGV[a + 3],
        'digest', ARGV[a + 4], 'outcome', ARGV[a + 5], 'signal', ARGV[a + 6], 'type', ARGV[a + 7], 'at_ms', ARGV[a + 8],
        'source', ARGV[a + 9], 'data', ARGV[a + 10])
    else
      local words = {'entry', ARGV[a + 1], 'version', ARGV[a + 2], 'directives', ARGV[a + 3], 'digest', ARGV[a + 4],
        'outcome', ARGV[a + 5], 'signal', ARGV[a + 6], 'type', ARGV[a + 7], 'at_ms', ARGV[a + 8], 'source', ARGV[a + 9]}
      if ARGV[a + 10] ~= '' then words[19], words[20] = 'data', ARGV[a + 10] end
      for i = a + 12, at do words[#words + 1] = ARGV[i] end
      if left > 1 then
        added = redis.pcall('XADD', journal, '*', unpack(words))
      else
        added = redis.pcall('XADD', journal, 'MAXLEN', '~', length, '*', unpack(words))
      end
    end
    if type(added) == 'table' and string.sub(added.err, 1, 9) == 'WRONGTYPE' then return nil end
  end
  return at
end

-- Where the words of `n` transitions end that begin after `at`.
local function journal_end(n, at)
  for _ = 1, n do at = at + 11 + ARGV[at + 11] end
  return at
end
