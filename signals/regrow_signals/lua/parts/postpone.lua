-- Signals that wait in the mailbox for another mode of their agent, before its cursor. Needs directives, entry_ids.
-- words: rewound (where the look at them stands after this batch; '' nowhere), back (1: the batch is of postponed ones, not
-- of what comes after the cursor), careful (up to where, while it is), moved (1: the batch changes the version), postponed
-- (how many are left), and the entries that are dealt with. It takes the place of the trim.
DIRECTIVES.postpone = {
  check = function(one, work)
    local rewound, back, careful, moved, postponed = one.words[1], one.words[2], one.words[3], one.words[4], one.words[5]
    local mailbox, cursor = key_beside(work.key, 'mailbox'), work.cursor
    -- What is dealt with is deleted with its commit: a batch that moves neither version nor cursor tells its repeat by it.
    if back == '1' and one.words[6] and #redis.call('XRANGE', mailbox, one.words[6], one.words[6]) == 0 then
      if moved == '1' then return {'refused', 'conflict', work.version, cursor} end
      return {'ok', '1', redis.call('HGET', work.key, 'blocked') or '0', '0'}
    end
    function work.keeps()
      for i = 6, #one.words do redis.call('XDEL', mailbox, one.words[i]) end
      if rewound ~= '' and #redis.call('XRANGE', mailbox, '(' .. rewound, cursor, 'COUNT', 1) == 0 then rewound = '' end
      redis.call('HSET', work.key, 'postponed', postponed, 'rewound', rewound)
      if back == '1' and rewound ~= '' then redis.call('HSET', work.key, 'careful_until', careful) end
    end
  end,
  write = function() end,
}
