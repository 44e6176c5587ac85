-- A client does not wait for a lock any more. If the lock is free, if a client of Redisson holds
-- it, or if it is a read-write lock, the next client in the line is called.
--
-- KEYS[1]  the lock: a hash of owner to hold count, or a read-write lock (shared/read_write.lua);
--          or a semaphore: the number of free permits
-- ARGV[1]  the place of the client
-- ARGV[2]  1: only if the client has been called and has not answered, or listens to the channel of
--          a semaphore; else 0
-- ARGV[3]  1: a semaphore; 0: it may be one
-- ARGV[4]  the command that publishes: publish or spublish
-- reply    1: the client has left the line; 2: and another client is called; 0: it has not left,
--          because ARGV[2] is 1

-- require "end_wait"
-- require "permit_line"

local lock, place, publish = KEYS[1], ARGV[1], ARGV[4]

local line, free = line_of(lock), redis.pcall('get', lock)
local score = redis.pcall('zscore', line, place)
if not score then
    -- The client may subscribe since its last request, or may not any more.
    place = other_form(place)
    score = redis.pcall('zscore', line, place)
end
local listener = redis.pcall('zrangebyscore', line, 1, 1)[1]
if ARGV[3] == '1' or type(free) == 'string' or listener and string.sub(listener, 1, 1) == '!' then
    local is_called = type(score) == 'string' and tonumber(score) < 0
    if ARGV[2] == '1' and not is_called and not redis.pcall('zscore', line, '!' .. place) then
        return 0
    end
    free = type(free) == 'string' and tonumber(free) or 0
    return leave_permits(lock, head_of(lock), place, free, publish) and 2 or 1
end

if ARGV[2] == '1' then
    local first, called = first_in(line)
    if not called or first ~= place and not is_among_called(line, place, called) then
        return 0
    end
end
return end_wait(lock, place, publish) and 2 or 1
