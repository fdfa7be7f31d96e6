-- Directives of other kinds and what is published. Made only for a commit that has any: some forty functions, and
-- making them costs each commit 20 us. Needs what its parts need.
local function other_kinds()
-- INCLUDE directives
-- INCLUDE reply_directive
-- INCLUDE postpone
-- INCLUDE timer_keys
-- INCLUDE timers
-- INCLUDE routing
-- INCLUDE subscriptions
-- INCLUDE register
-- INCLUDE family
-- INCLUDE children
-- INCLUDE monitors
-- INCLUDE subscribers
-- INCLUDE overflow
-- INCLUDE publications
-- INCLUDE effect_tags
return {read = read_directives, check = check_directives, write = write_directives, publish = publish_from, prefix_of = prefix_of}
end
