-- Adds free permits to a semaphore, or removes some, and notifies the waiting clients.
--
-- KEYS[1]  the semaphore: the number of free permits
-- KEYS[2]  the records of this client: a hash of lane to request number and reply
-- ARGV[1]  the number of permits to add; negative: to remove
-- ARGV[2]  the lane
-- ARGV[3]  the number of the request
-- ARGV[4]  the channel of the semaphore
-- ARGV[5]  the command that publishes: publish or spublish
-- reply    the number of free permits then; nil: it would not be a 32-bit number, so nothing is
--          changed. An error, without any change, if a key has another type or form
local done = recorded(KEYS[2], ARGV[2], ARGV[3])
if done then
    return done
end
local free, failure = number_of(KEYS[1])
if failure then
    return failure
end
local sum = (free or 0) + ARGV[1]
if sum > 2147483647 or sum < -2147483648 then
    return nil
end
local reply = once(KEYS[2], ARGV[2], ARGV[3], sum, 'incrby', KEYS[1], ARGV[1])
if reply == sum then
    -- pcall: the permits are free even if the user lacks permission to publish.
    redis.pcall(ARGV[5], ARGV[4], sum)
end
return reply
