-- pool_commit: plain commits of many agents, each standing or falling alone; and the slot lets go of each, as pool_release.
-- Plain: a state, a journal and counters; no directives, no dead letters. Whatever has those is committed by `commit`.
-- KEYS 1 claims set        what the node's slots hold: slot and agent
-- KEYS 2 counters hash     what metrics are made of
-- ARGV 1 prefix            of all keys of the namespace
-- ARGV 2 slot              number of the slot's process on this node
-- ARGV 3 names             how many names of counters
-- ARGV 4 commits           how many commits
-- ARGV ... lists           name.. | id incarnation token base_version base_cursor version cursor min_id state schema
--                          journal_length transitions raises, its transitions as in parts/journal.lua, name no, by ..
-- REPLY an array, for each commit one of
-- REPLY ok <landed before> <blocked> <held>
-- REPLY corrupt <key> <why>
-- REPLY refused fenced
-- REPLY refused conflict <version> <cursor>
-- INCLUDE corrupt
-- INCLUDE entry_ids
-- INCLUDE count
-- INCLUDE journal
-- INCLUDE moved_on
-- INCLUDE let_go
local claims = KEYS[1]
local counters = KEYS[2]
local prefix, slot, names = ARGV[1], ARGV[2], tonumber(ARGV[3])
local MANY = 500

local wrong = corrupt({claims, 'set'})
if wrong then return wrong end
local done, raised = {}, {}

-- One commit, whose words begin after `at`. `last`: where its transitions end and its counters begin.
local function commit(at, transitions, first, last)
  local id, version, cursor = ARGV[at + 1], ARGV[at + 6], ARGV[at + 7]
  local agent, mailbox, journal = prefix .. 'agent:' .. id, prefix .. 'mailbox:' .. id, prefix .. 'journal:' .. id
  local record = redis.pcall('HMGET', agent, 'incarnation', 'owner', 'version', 'cursor', 'trying', 'careful_until', 'blocked',
    'handled', 'dropped')
  if record.err then return corrupt({agent, 'hash'}) end
  local before, dropped = record[4], record[9]
  if ARGV[at + 3] == '' or record[1] ~= ARGV[at + 2] or record[2] ~= ARGV[at + 3] then
    done[#done + 1] = slot .. ' ' .. id
    return {'refused', 'fenced'}
  end
  if not record[3] or not is_id(before) then return {'corrupt', agent, 'has no readable version or cursor'} end
  local length = redis.pcall('XLEN', mailbox)
  if type(length) == 'table' then return corrupt({mailbox, 'stream'}) end
  local taken = version - ARGV[at + 4]
  -- A signal of the batch gave way to a newer one while it was in hand: it is a dead letter, the batch does not stand.
  if record[3] ~= ARGV[at + 4] or before ~= ARGV[at + 5] or (dropped and is_id(dropped) and older(before, dropped)
    and #redis.call('XRANGE', mailbox, '(' .. before, cursor) ~= taken) then
    done[#done + 1] = slot .. ' ' .. id
    let_go(agent, '1')
    return {'refused', 'conflict', record[3], before}
  end
  -- The first write; where it fails for the key's type nothing was written.
  if not write_journal(journal, transitions, first, ARGV[at + 11]) then return corrupt({journal, 'stream'}) end

  if ARGV[at + 8] ~= '' then
    redis.call('XTRIM', mailbox, 'MINID', '=', ARGV[at + 8])
  else
    redis.call('XTRIM', mailbox, 'MAXLEN', '=', 0)
  end
  local blocked = record[7] == '1'
  local status, handled = blocked and 'blocked' or 'idle', added(record[8], taken)
  if ARGV[at + 9] ~= '' then
    redis.call('HSET', agent, 'state', ARGV[at + 9], 'schema', ARGV[at + 10], 'version', version, 'cursor', cursor,
      'handled', handled, 'owner', '', 'worker', '', 'pid', '', 'clean', '1', 'status', status)
  else
    redis.call('HSET', agent, 'version', version, 'cursor', cursor, 'handled', handled, 'owner', '', 'worker', '', 'pid', '',
      'clean', '1', 'status', status)
  end
  end_care(agent, record[6] or '', record[5] or '', cursor)
  for i = last + 1, last + 2 * ARGV[at + 13], 2 do
    local name = ARGV[4 + ARGV[i]]
    raised[name] = (raised[name] or 0) + ARGV[i + 1]
  end
  done[#done + 1] = slot .. ' ' .. id
  if length > taken then make_ready(agent) end
  return blocked and {'ok', '0', '1', '0'} or {'ok', '0', '0', '0'}
end

local replies, at = {}, 4 + names
for i = 1, tonumber(ARGV[4]) do
  local transitions, first = tonumber(ARGV[at + 12]), at + 13
  local last = journal_end(transitions, first)
  replies[i] = commit(at, transitions, first, last)
  at = last + 2 * ARGV[at + 13]
end
for name, by in pairs(raised) do count(counters, name, string.format('%.0f', by)) end
for i = 1, #done, MANY do redis.call('SREM', claims, unpack(done, i, math.min(i + MANY - 1, #done))) end
return replies
