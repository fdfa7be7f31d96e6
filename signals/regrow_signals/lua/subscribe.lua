-- subscribe: an agent gets what is published under types that a pattern fits; a repeat changes priority and policy.
-- KEYS 1 agent hash          the agent's record
-- KEYS 2 subscriptions hash  patterns
-- KEYS 3 wildcards set       patterns with wildcards
-- KEYS 4 subscribers hash    of the pattern
-- ARGV 1 prefix              of all keys of the namespace
-- ARGV 2 agent_id            the agent
-- ARGV 3 pattern             checked, in its one spelling
-- ARGV 4 priority            a whole number; the highest is first
-- ARGV 5 policy              refuse, hold or latest
-- ARGV 6 max_subscribers     bound of a pattern's subscribers
-- ARGV 7 max_patterns        bound of an agent's patterns, and of those with wildcards
-- REPLY ok <1: it is new, 0: it was there>
-- REPLY corrupt <key> <why>
-- REPLY refused no_such_agent | subscriptions_full <which> <length> <bound>
-- INCLUDE corrupt
-- INCLUDE subscriptions
local agent = KEYS[1]
local prefix, agent_id, pattern = ARGV[1], ARGV[2], ARGV[3]

local wrong = subscription_fault(prefix, agent_id, pattern)
if wrong then return wrong end
if redis.call('HEXISTS', agent, 'birth') == 0 then return {'refused', 'no_such_agent'} end
local full = subscription_bound(prefix, agent_id, pattern,
  {max_subscribers = tonumber(ARGV[6]), max_patterns = tonumber(ARGV[7])})
if full then return {'refused', 'subscriptions_full', full[1], tostring(full[2]), tostring(full[3])} end
return {'ok', subscribe(prefix, agent_id, pattern, ARGV[4], ARGV[5], 'call') and '1' or '0'}
