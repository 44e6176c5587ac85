-- Notifies the first waiter of a condition, or all. Its client holds the lock.
--
-- KEYS[1]  the lock: a hash of owner to hold count
-- KEYS[2]  the waiters that are not notified, in their order
-- KEYS[3]  all waiters, and when their places end, in milliseconds
-- ARGV[1]  the owner of the lock
-- ARGV[2]  1: notifies all waiters; 0: the first one
-- ARGV[3]  the channel of the lock, with which the channels of clients begin
-- ARGV[4]  the command that publishes: publish or spublish
-- reply    1 more than the number of notified waiters; 0: no owner holds the lock; -1: another
--          owner holds it. An error, without any change, if a key has another type
--
-- A notified waiter keeps its place until it has the lock again. If it dies before, the next one is
-- notified. After a notification of all, no place is left, so there is none to pass on. A second
-- copy of a call notifies another waiter: a spurious wake-up.

-- require "waiters"

local queue, places = KEYS[2], KEYS[3]
local refusal = refusal_of(KEYS[1], ARGV[1], queue, places)
if refusal then
    return refusal
end
return 1 + notify(queue, places, ARGV[2] == '1' and math.huge or 1, ARGV[3], ARGV[4])
