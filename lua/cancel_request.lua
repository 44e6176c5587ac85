-- Cancels a request that changes a number, if it was not executed: from then on no copy of it is.
--
-- KEYS[1]  the records of this client: a hash of lane to request number and reply
-- ARGV[1]  the lane of the request
-- ARGV[2]  its number
-- reply    the reply of the request; 0: it was not executed

-- require "once"

local done = recorded(KEYS[1], ARGV[1], ARGV[2])
if done then
    return done
end
return once(KEYS[1], ARGV[1], ARGV[2], 0)
