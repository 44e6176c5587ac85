-- Changes the free permits of a semaphore or the count of a latch. Calls the next clients in the
-- line of a semaphore, and notifies those that listen to the channel.
--
-- KEYS[1]  the semaphore or the latch: a number
-- KEYS[2]  the records of this client: a hash of lane to request number and reply
-- ARGV[1]  the lane
-- ARGV[2]  the number of the request
-- ARGV[3]  1: an earlier copy of the request is lost; else 0
-- ARGV[4]  what to do: one of the actions below
-- ARGV[5]  a number, for two of the actions
-- ARGV[6]  the channel of the key
-- ARGV[7]  the command that publishes: publish or spublish
-- reply    as below. An error, without any change, if a key has another type or form
--
-- | action     | change                                             | reply                       |
-- |------------|----------------------------------------------------|-----------------------------|
-- | set        | sets the permits, if there is no key               | 1: set; 0: there is a key   |
-- | set_count  | sets the count, if there is no key                 | 1: set; 0: there is a key   |
-- | add        | adds permits (negative: removes), if the sum has   | the sum; 2^40 more if       |
-- |            | 32 bits                                            | called clients have not     |
-- |            |                                                    | answered; later the sum     |
-- | drain      | takes all free permits; negative: becomes zero     | how many were free          |
-- | count_down | decreases the count; at zero, deletes the key      | the count then              |
--
-- All messages: src/protocol/message.rs.

-- require "once"
-- require "line_of"

local key, channel, publish = KEYS[1], ARGV[6], ARGV[7]
local action, argument = ARGV[4], tonumber(ARGV[5])
local done, old = begin()
if done then
    return done
end
local number = old or 0
local change, reply, message
if action == 'add' then
    local sum = number + argument
    local fits = sum <= 2147483647 and sum >= -2147483648
    change, reply, message = fits and argument, sum, sum
elseif action == 'drain' then
    change, reply = number ~= 0 and -number, number
elseif action == 'count_down' then
    change, reply = old and -1, math.max(number - 1, 0)
    message = number == 1 and 0
else
    -- Redisson publishes 1 for a new count.
    change, reply, message = not old and argument, old and 0 or 1, action == 'set' and argument or 1
end
if not change then
    return unchanged(reply)
end
local is_over = action == 'count_down' and reply == 0
local result = is_over and once(reply, 'del', key) or once(reply, 'incrby', key, change)
if result ~= reply or not message then
    return result
elseif redis.pcall('exists', line_of(key)) == 0 then
    -- pcall: the number is changed even if the user lacks permission to publish.
    redis.pcall(publish, channel, message)
    return reply
end

-- require "permit_line"

local _, _, called = notify_free(key, channel, message, publish)
return called and action == 'add' and reply + 2 ^ 40 or reply
