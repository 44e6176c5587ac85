-- Puts a waiter at the end of the queue of a condition. Its client holds the lock.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- KEYS[2]  the waiters that are not notified, in their order
-- KEYS[3]  all waiters, and when their places end, in milliseconds
-- ARGV[1]  the owner of the lock
-- ARGV[2]  the waiter, which has never waited before
-- ARGV[3]  how long its place lasts, in milliseconds
-- ARGV[4]  the channel of the lock, with which the channels of clients begin
-- ARGV[5]  the command that publishes: publish or spublish
-- reply    1: it waits; 0: no owner holds the lock; -1: another owner holds it. An error, without
--          any change, if a key has another type

-- require "waiters"

local queue, places, waiter, millis = KEYS[2], KEYS[3], ARGV[2], ARGV[3]
-- A copy of this call that is executed after the release of the lock has no effect.
local refusal = refusal_of(KEYS[1], ARGV[1], queue, places)
if refusal then
    return refusal
end
notify(queue, places, 0, ARGV[4], ARGV[5])
if not redis.call('zscore', places, waiter) then
    local last = redis.call('zrange', queue, -1, -1, 'withscores')[2] or 0
    redis.call('zadd', queue, last + 1, waiter)
    redis.call('zadd', places, now_millis() + millis, waiter)
end
keep(queue, places, millis)
return 1
