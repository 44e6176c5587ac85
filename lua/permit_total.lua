-- Sets or changes the number of permits of a semaphore. Calls the next clients in the line, and
-- notifies those that listen to the channel.
--
-- KEYS[1]  the number of available permits
-- KEYS[2]  the leased permits: a sorted set of ids with the ends of their leases
-- ARGV[1]  what to do: "init": set the number, unless the semaphore exists; "set": set the number
--          of all permits, with those that are leased; "add": change the number
-- ARGV[2]  the number
-- ARGV[3]  the channel for permits that become available
-- ARGV[4]  the command that publishes: publish or spublish
-- reply    1: done; 0: the semaphore exists. An error, without any change, if a key has another
--          type or form

-- require "permits"
-- require "permit_line"

local available, failure = number_of(KEYS[1])
if failure then
    return failure
end
local action, change = ARGV[1], tonumber(ARGV[2])
if action == 'init' and available then
    return 0
end
if action ~= 'add' then
    local leased = redis.pcall('zcard', KEYS[2])
    if type(leased) == 'table' then
        return wrong_type('leases', KEYS[2], 'sorted set', leased)
    end
    change = change - leased - (available or 0)
end
-- INCRBY keeps the time to live of the key.
local value = redis.call('incrby', KEYS[1], text_of(change))
if change > 0 and value > 0 then
    notify_free(KEYS[1], ARGV[3], value, ARGV[4])
end
return 1
