-- How a request for a read-write lock is refused.

-- require "kinds"
-- require "line"

-- The reply to a caller that does not acquire the lock: it enters the line if it waits, and leaves it
-- if it does not. A writer of this library calls the next client when it releases the lock.
local function refuse(lock, left, holder, caller)
    local rank
    if caller.waits then
        rank = enter_line(lock, caller.place, caller.role)
    elseif caller.place ~= '' and leave_line(lock, caller.place) then
        if not (is_of_this_library(holder) and string.find(holder, ':write$')) then
            call_first(lock, caller.publish)
        end
    end
    return { left, 1, holder, rank }
end
