-- One due timer. Needs corrupt, count, entry_ids, mailboxes, dead_letters, timer_keys. `shop`: what the whole step shares.
local LATENESS = {'0.005', '0.01', '0.025', '0.05', '0.1', '0.25', '0.5', '1', '5', '60', '+Inf'}

local function add_to(tally, name, by)
  tally[name] = (tally[name] or 0) + by
end

local function owner_of(shop, agent)
  if shop.owners[agent] == nil then
    local key = shop.prefix .. 'agent:' .. agent
    local record = not corrupt({key, 'hash'}) and redis.call('HMGET', key, 'birth', 'type', 'incarnation')
    shop.owners[agent] = record and record[1] and {birth = record[1], type = record[2] or 'unknown', incarnation = record[3] or ''} or false
  end
  return shop.owners[agent]
end

local function box_of(shop, agent)
  if not shop.boxes[agent] then
    local p = shop.prefix
    local box = look_at_mailbox(p .. 'agent:' .. agent, p .. 'mailbox:' .. agent, p .. 'dead:' .. agent, shop.bounds, shop.now)
    box.closed = box.gone or redis.call('XLEN', p .. 'dead:' .. agent) >= shop.bounds.max_dead
    shop.boxes[agent] = box
  end
  return shop.boxes[agent]
end

local function count_tick(shop, due)
  local late = math.max(0, shop.now - tonumber(due))
  local bucket = 1
  while bucket < #LATENESS and late > tonumber(LATENESS[bucket]) * 1000 do bucket = bucket + 1 end
  add_to(shop.tally, 'timer_lateness_seconds_bucket|le=' .. LATENESS[bucket], 1)
  add_to(shop.tally, 'timer_lateness_seconds_sum_us', late * 1000)
  add_to(shop.tally, 'timer_lateness_seconds_count', 1)
end

local function signal_of(timer, tick)
  local fields = {'id', timer.set .. ':' .. tick.due, 'type', timer.type, 'source', timer.agent, 'data', timer.data, 'time', tick.time}
  for _, name in ipairs({'subject', 'datacontenttype', 'data_base64', 'dataschema', 'traceparent', 'tracestate', 'causationid',
    'extensions'}) do
    if timer[name] then fields[#fields + 1], fields[#fields + 2] = name, timer[name] end
  end
  return fields
end

-- The timer as a table; nil where it is not, or not any more, the one that was decided about.
local NEEDED = {'agent', 'birth', 'set', 'to', 'type', 'data'}

local function read_timer(shop, firing)
  local key = shop.prefix .. 'timer:' .. firing.id
  local timer = {}
  if not corrupt({key, 'hash'}) then
    local flat = redis.call('HGETALL', key)
    for i = 1, #flat, 2 do timer[flat[i]] = flat[i + 1] end
  end
  if (timer.set or '') ~= firing.set or (timer.due_ms or '') ~= firing.due then return nil end
  for _, name in ipairs(NEEDED) do
    if not timer[name] then firing.why = 'its record has no field ' .. name end
  end
  return timer
end

local function drop_timer(shop, timer, firing, why)
  remove_timer(shop.prefix .. 'timer:' .. firing.id, shop.timers, shop.prefix .. 'timers-of:' .. (timer.agent or ''), firing.id)
  shop.done.dropped = shop.done.dropped + 1
  add_to(shop.tally, 'timers_dropped_total', 1)
  event(shop.events, shop.max_events, shop.now, 'timer_dropped', 'agent', timer.agent or '', 'reason', why, 'detail', firing.id)
end

-- The timer stays due: looked at again soon at first, then ever more seldom.
local function wait_for_room(shop, firing, due)
  local pause = math.min(30000, math.max(500, (shop.now - tonumber(due)) / 8))
  redis.call('ZADD', shop.timers, string.format('%.0f', shop.now + pause), firing.id)
  shop.done.waiting = shop.done.waiting + 1
end

local function bury_tick(shop, timer, tick, reason)
  local p, owner = shop.prefix, owner_of(shop, timer.agent)
  local grave = {dead = p .. 'dead:' .. timer.agent, fate = p .. 'fate:' .. timer.agent, events = shop.events, counters = shop.counters,
    agent = timer.agent, incarnation = owner.incarnation, type = owner.type, max_events = shop.max_events}
  local fields = signal_of(timer, tick)
  fields[#fields + 1], fields[#fields + 2] = 'target', timer.to
  bury(grave, shop.now, '', reason, '', 0, fields)
end

-- What becomes of one tick: 'put' (and the entry), 'buried', or 'full'.
local function deliver(shop, timer, tick, box)
  local own = timer.to == timer.agent
  if own and not box.closed and box.room + shop.extra_room > 0 or not own and not box.gone and box.room > 0 then
    local fields = signal_of(timer, tick)
    fields[#fields + 1], fields[#fields + 2] = 'at_ms', shop.now
    return 'put', put_in_mailbox(box, fields)
  end
  local late = shop.now - tonumber(tick.due) > shop.held_timeout
  if own or not (box.gone or late) then return 'full' end
  local mine = box_of(shop, timer.agent)
  if mine.closed or exhausted(last_id(shop.prefix .. 'dead:' .. timer.agent)) then return 'full' end
  bury_tick(shop, timer, tick, box.gone or 'target_full')
  return 'buried'
end

local function fire_timer(shop, firing)
  local timer = read_timer(shop, firing)
  if not timer then
    if redis.call('EXISTS', shop.prefix .. 'timer:' .. firing.id) == 0 then redis.call('ZREM', shop.timers, firing.id) end
    return
  end
  if firing.why ~= '' then return drop_timer(shop, timer, firing, firing.why) end
  local owner = owner_of(shop, timer.agent)
  if not owner or owner.birth ~= timer.birth then return drop_timer(shop, timer, firing, 'its agent is gone') end
  local key = shop.prefix .. 'timer:' .. firing.id
  local box, missed = box_of(shop, timer.to), firing.left_out
  -- A tick that nobody has taken yet stands for those after it.
  local waits = timer.missed ~= 'all' and (timer.entry or '') ~= '' and not box.gone
    and #redis.call('XRANGE', box.key, timer.entry, timer.entry) > 0
  local last, entry
  for _, tick in ipairs(firing.ticks) do
    local became, put = 'missed', nil
    if waits then missed = missed + 1 else became, put = deliver(shop, timer, tick, box) end
    if became == 'full' then
      if last then redis.call('HSET', key, 'due_ms', tick.due) end
      wait_for_room(shop, firing, tick.due)
      firing.next = nil
      break
    end
    last, entry = tick, put or entry
    if became == 'put' then
      shop.done.fired = shop.done.fired + 1
      add_to(shop.tally, 'timers_fired_total|type=' .. owner.type, 1)
      count_tick(shop, tick.due)
    end
  end
  if missed > 0 and (last or firing.next) then
    shop.done.missed = shop.done.missed + missed
    add_to(shop.tally, 'timers_missed_total|type=' .. owner.type, missed)
  end
  if firing.next == '' then
    return remove_timer(key, shop.timers, shop.prefix .. 'timers-of:' .. timer.agent, firing.id)
  end
  if last then redis.call('HSET', key, 'last_ms', last.due) end
  if entry then redis.call('HSET', key, 'entry', entry) end
  if firing.next then
    redis.call('HSET', key, 'due_ms', firing.next)
    redis.call('ZADD', shop.timers, firing.next, firing.id)
  end
end
