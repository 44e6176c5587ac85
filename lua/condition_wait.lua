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

-- require "now_millis"
-- require "waiters"

local lock, queue, places = KEYS[1], KEYS[2], KEYS[3]
local owner, waiter, millis, channel, publish = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
-- A copy of this call that is executed after the release of the lock has no effect.
if redis.call('hexists', lock, owner) == 0 then
    return redis.call('exists', lock) * -1
end
local failure = type_error(queue, places)
if failure then
    return failure
end
local now = now_millis()
tell(notify(queue, places, sweep(queue, places, now)), channel, publish)
if not redis.call('zscore', places, waiter) then
    local last = redis.call('zrange', queue, -1, -1, 'withscores')[2] or 0
    redis.call('zadd', queue, last + 1, waiter)
    redis.call('zadd', places, now + millis, waiter)
end
keep(queue, places, millis)
return 1
