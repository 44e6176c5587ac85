-- The end of a wait in the line of a lock that is no semaphore.

-- require "holder_of"
-- require "kinds"
-- require "line"

-- The client does not wait any more. If it had the first place or was called, and the lock is free,
-- a client of Redisson holds it, or it is a read-write lock, the next client is called: then true.
local function end_wait(lock, place, publish)
    if not leave_line(lock, place) then
        return false
    end
    -- A read-write lock has none: readers may hold it, and the next client may be a reader.
    local holder = holder_of(lock)
    return not (holder and is_of_this_library(holder)) and call_next(lock, publish)
end
