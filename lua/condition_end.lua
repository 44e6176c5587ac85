-- Ends the place of a waiter, which has the lock again or gives up.
--
-- KEYS[1]  the waiters of a condition that are not notified, in their order
-- KEYS[2]  all its waiters, and when their places end, in milliseconds
-- ARGV[1]  the waiter
-- ARGV[2]  1: the next waiter gets its notification, if it has one; 0: it takes it
-- ARGV[3]  the channel of the lock, with which the channels of clients begin
-- ARGV[4]  the command that publishes: publish or spublish
-- reply    1: it was not notified; 2: it was; 0: it had no place

-- require "waiters"

local queue, places, waiter = KEYS[1], KEYS[2], ARGV[1]
local reply = 0
if redis.call('zrem', places, waiter) == 1 then
    reply = 2 - redis.call('zrem', queue, waiter)
end
notify(queue, places, reply == 2 and ARGV[2] == '1' and 1 or 0, ARGV[3], ARGV[4])
return reply
