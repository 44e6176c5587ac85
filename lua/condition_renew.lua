-- Renews the places of waiters, of one condition or of several, and replies which of them still
-- wait.
--
-- KEYS[2i-1]   the waiters of a condition that are not notified, in their order
-- KEYS[2i]     all its waiters, and when their places end, in milliseconds
-- ARGV[4i-3]   the waiter
-- ARGV[4i-2]   how long its place lasts from now on, in milliseconds
-- ARGV[4i-1]   1: it waits for a notification; 0: it was woken, and waits for the lock
-- ARGV[4i]     the channel of the lock, with which the channels of clients begin
-- ARGV[4n+1]   the command that publishes: publish or spublish
-- reply[i]     1: renewed; 0: it need not wait for a notification, its place has ended, or a key of
--              the condition has another type

-- require "waiters"

local replies = {}
for i = 1, #KEYS / 2 do
    local queue, places = KEYS[2 * i - 1], KEYS[2 * i]
    local waiter, millis, waits, channel = unpack(ARGV, 4 * i - 3, 4 * i)
    replies[i] = 0
    -- A key of another type ends the waits of its condition only.
    if not type_error(queue, places) then
        if redis.call('zscore', places, waiter) then
            -- First, because Redis without memory refuses a script only at its first write.
            keep(queue, places, millis)
            redis.call('zadd', places, now_millis() + millis, waiter)
            local is_notified = waits == '1' and not redis.call('zscore', queue, waiter)
            replies[i] = is_notified and 0 or 1
        end
        notify(queue, places, 0, channel, ARGV[#ARGV])
    end
end
return replies
