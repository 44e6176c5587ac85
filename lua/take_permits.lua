-- Takes permits of a semaphore, if enough of them are free.
--
-- KEYS[1]  the semaphore: the number of free permits
-- KEYS[2]  the records of this client: a hash of lane to request number and reply
-- ARGV[1]  the number of permits
-- ARGV[2]  how many permits must be left over
-- ARGV[3]  the lane
-- ARGV[4]  the number of the request
-- ARGV[5]  1: an earlier copy of the request is lost; else 0
-- reply    ARGV[1]: taken; 0: not enough are free. An error, without any change, if a key has
--          another type or form
local done = recorded(KEYS[2], ARGV[3], ARGV[4])
if done then
    return done
end
local free, failure = number_of(KEYS[1])
if failure then
    return failure
end
if not free or free < ARGV[1] + ARGV[2] then
    return unchanged(KEYS[2], ARGV[3], ARGV[4], 0, ARGV[5])
end
return once(KEYS[2], ARGV[3], ARGV[4], tonumber(ARGV[1]), 'incrby', KEYS[1], -ARGV[1])
