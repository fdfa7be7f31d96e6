-- unsubscribe: an agent gets what is published under this pattern no longer.
-- KEYS 1 agent hash          the agent's record
-- KEYS 2 subscriptions hash  patterns
-- KEYS 3 wildcards set       patterns with wildcards
-- KEYS 4 subscribers hash    of the pattern
-- ARGV 1 prefix              of all keys of the namespace
-- ARGV 2 agent_id            the agent
-- ARGV 3 pattern             checked, in its one spelling
-- REPLY ok <1: it is ended, 0: there was none>
-- REPLY corrupt <key> <why>
-- INCLUDE corrupt
-- INCLUDE subscriptions
local wrong = subscription_fault(ARGV[1], ARGV[2], ARGV[3])
if wrong then return wrong end
return {'ok', unsubscribe(ARGV[1], ARGV[2], ARGV[3]) and '1' or '0'}
