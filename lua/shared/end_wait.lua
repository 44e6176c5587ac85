-- The end of a wait in the line of a lock that is no semaphore.

-- require "holder_of"
-- require "kinds"
-- require "line"

-- The client does not wait any more. If it had the first place, and the lock is free, a client of
-- Redisson holds it, or it is a read-write lock, the next client is called.
local function end_wait(lock, place, publish)
    if leave_line(lock, place) then
        -- A read-write lock has none: readers may hold it, and the next client may be a reader.
        local holder = holder_of(lock)
        if not holder or not is_of_this_library(holder) then
            call_first(lock, publish)
        end
    end
end
