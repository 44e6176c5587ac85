-- Adds free permits to a semaphore, or removes some. Calls the next clients in the line, and notifies
-- those that listen to the channel.
--
-- KEYS[1]  the semaphore: the number of free permits
-- KEYS[2]  the records of this client: a hash of lane to request number and reply
-- ARGV[1]  the number of permits to add; negative: to remove
-- ARGV[2]  the lane
-- ARGV[3]  the number of the request
-- ARGV[4]  1: an earlier copy of the request is lost; else 0
-- ARGV[5]  the channel of the semaphore
-- ARGV[6]  the command that publishes: publish or spublish
-- reply    the number of free permits then. If that is not a 32-bit number, nothing is changed. An
--          error, without any change, if a key has another type or form

-- require "once"
-- require "line_of"

local key, channel, publish = KEYS[1], ARGV[5], ARGV[6]
local done, free = begin(key, KEYS[2], ARGV[2], ARGV[3])
if done then
    return done
end
local sum = (free or 0) + ARGV[1]
if sum > 2147483647 or sum < -2147483648 then
    return unchanged(KEYS[2], ARGV[2], ARGV[3], sum, ARGV[4])
end
local reply = once(KEYS[2], ARGV[2], ARGV[3], sum, 'incrby', key, ARGV[1])
if reply ~= sum then
    return reply
elseif redis.pcall('exists', line_of(key)) == 0 then
    -- pcall: the permits are free even if the user lacks permission to publish.
    redis.pcall(publish, channel, string.format('%.0f', sum))
    return reply
end

-- require "permit_line"

notify_free(key, channel, sum, publish)
return reply
