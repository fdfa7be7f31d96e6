-- Which child has which tag, in its parent's record: child:<tag> = <id>; `children` counts them.
local function bind_child(parent, tag, id)
  if redis.call('HSET', parent, 'child:' .. tag, id) == 1 then redis.pcall('HINCRBY', parent, 'children', 1) end
end

-- Only while the tag is this child's: another may have it by now.
local function unbind_child(parent, tag, id)
  if redis.call('HGET', parent, 'child:' .. tag) ~= id then return end
  redis.call('HDEL', parent, 'child:' .. tag)
  redis.pcall('HINCRBY', parent, 'children', -1)
end
