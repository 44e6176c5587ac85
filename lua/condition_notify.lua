-- Notifies the first waiter of a condition, or all. Its client holds the lock.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- KEYS[2]  the waiters that are not notified, in their order
-- KEYS[3]  all waiters, and when their places end, in milliseconds
-- KEYS[4]  the last call that notified a waiter: its owner and number
-- ARGV[1]  the owner of the lock
-- ARGV[2]  the number of this call, higher than those of earlier calls of this owner
-- ARGV[3]  1: notifies all waiters; 0: the first one
-- ARGV[4]  the channel of the lock, with which the channels of clients begin
-- ARGV[5]  the command that publishes: publish or spublish
-- reply    1 more than the number of notified waiters; 0: no owner holds the lock; -1: another
--          owner holds it. An error, without any change, if a key has another type
--
-- A notified waiter keeps its place until it has the lock again. If it dies before, the next one is
-- notified. After a notification of all, no place is left, so there is none to pass on.

-- require "waiters"

local queue, places, last_call = KEYS[2], KEYS[3], KEYS[4]
local owner, number = ARGV[1], ARGV[2]
local refusal = refusal_of(KEYS[1], owner, queue, places)
if refusal then
    return refusal
elseif redis.call('exists', places) == 0 then
    return 1
end
-- A second copy of a call has no effect.
local earlier, last = string.match(redis.call('get', last_call) or '', '^(%S+) (%d+)$')
if earlier == owner and tonumber(number) <= tonumber(last) then
    return 1
end
local count = ARGV[3] == '1' and math.huge or 1
local notified = notify(queue, places, count, ARGV[4], ARGV[5])
if notified > 0 then
    -- For longer than any copy of the call is on its way.
    redis.call('set', last_call, owner .. ' ' .. number, 'px', 120000)
end
return 1 + notified
