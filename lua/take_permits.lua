-- Takes permits of a semaphore, if enough of them are free.
--
-- KEYS[1]  the semaphore: the number of free permits
-- KEYS[2]  the records of this client: a hash of lane to request number and reply
-- ARGV[1]  the lane
-- ARGV[2]  the number of the request
-- ARGV[3]  1: an earlier copy of the request is lost; else 0
-- ARGV[4]  the number of permits
-- ARGV[5]  the place of this client in the line (shared/permit_line.lua); empty if it has none
-- ARGV[6]  1 if the caller waits if it gets none, else 0
-- ARGV[7]  the command that publishes: publish or spublish
-- reply    ARGV[4]: taken. { -1, 1, '', rank, listens }: not enough are free, or those are
--          reserved. The rank is the number of clients before this one in the line. It and what
--          follows are absent if this client is in no line. Listens is 1 if it also listens to the
--          channel, else 0. An error, without any change, if a key has another type or form
--
-- A refused caller that waits and has a place enters the line. One that does not wait leaves it,
-- and may take permits that are reserved.

-- require "once"
-- require "line_of"

local key, permits = KEYS[1], tonumber(ARGV[4])
local place, waits, publish = ARGV[5], ARGV[6] == '1', ARGV[7]
local done, free = begin()
if done then
    return done == 0 and { -1, 1, '' } or done
end
free = free or 0
if free >= permits and redis.pcall('exists', line_of(key)) == 0 then
    return once(permits, 'incrby', key, -permits)
end

-- require "permit_line"

local head = head_of(key)
if waits and may_take(key, head, place, permits, free, publish)
    or not waits and free >= permits then
    local reply = once(permits, 'incrby', key, -permits)
    if reply == permits then
        leave_permits(key, head, place, free - permits, publish)
    end
    return reply
end
local reply = unchanged(0)
if reply ~= 0 then
    return reply
elseif not waits or place == '' then
    leave_permits(key, head, place, free, publish)
    return { -1, 1, '' }
end
return { -1, 1, '', await_permits(key, head, place, permits, free, publish) }
