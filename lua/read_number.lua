-- Reads the free permits of a semaphore or the count of a latch.
--
-- KEYS[1]  the semaphore or the latch
-- reply    the number; 0 without a key. An error if the key has another type or form

-- require "number_of"

local number, failure = number_of(KEYS[1])
return failure or number or 0
