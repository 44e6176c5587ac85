-- Sets the free permits of a semaphore or the count of a latch, if there is no such key, and
-- notifies the waiting clients.
--
-- KEYS[1]  the semaphore or the latch
-- KEYS[2]  the records of this client: a hash of lane to request number and reply
-- ARGV[1]  the number
-- ARGV[2]  the message to publish
-- ARGV[3]  the lane
-- ARGV[4]  the number of the request
-- ARGV[5]  1: an earlier copy of the request is lost; else 0
-- ARGV[6]  the channel of the key
-- ARGV[7]  the command that publishes: publish or spublish
-- reply    1: set; 0: there is a number already. An error, without any change, if a key has another
--          type or form

-- require "once"
-- require "permit_line"

local done, number = begin(KEYS[1], KEYS[2], ARGV[3], ARGV[4])
if done then
    return done
end
if number then
    return unchanged(KEYS[2], ARGV[3], ARGV[4], 0, ARGV[5])
end
local reply = once(KEYS[2], ARGV[3], ARGV[4], 1, 'set', KEYS[1], ARGV[1])
if reply == 1 then
    -- A latch has no line.
    notify_free(KEYS[1], ARGV[6], tonumber(ARGV[2]), ARGV[7])
end
return reply
