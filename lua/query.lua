-- Executes commands if the owners still hold their locks, all of them. Otherwise executes none.
--
-- KEYS[2i-1]    lock i: a hash of owner to hold count, a read-write lock (shared/read_write.lua),
--               or the leased permits of a semaphore: a sorted set of ids with the ends of their
--               leases
-- KEYS[2i]      the owner of lock i whose query was the last, a space, and the number of that query
-- KEYS[2n+1..]  in a cluster, the keys of the commands
-- ARGV[1]       n, the number of locks
-- ARGV[2]       how long the numbers are kept, in milliseconds
-- ARGV[3i]      the owner of lock i, or the ids of permits, 16 bytes each
-- ARGV[3i+1]    the number of the query among those of the owner, which rises
-- ARGV[3i+2]    1: a permit; 0: a lock
-- ARGV[3n+3..]  for each command, the number of its words, and the words
-- ARGV[#ARGV]   the command that publishes: publish or spublish
-- reply         executed: { replies, ... } with the index and the text of each error after the
--               replies, where the reply is nil. A failed command does not end the others
-- reply         nothing executed: i: lock i has no owner, or a permit is not leased; -i: another
--               owner holds it, or the lease of this one is over; nil: this query or a later one
--               was executed before

-- require "hold_left"
-- require "wrong_type"
-- require "now_millis"
-- require "permits"

-- True if it is held. Otherwise false, or an error that says nothing of it.
local function is_held(lock, owner, is_permit)
    local found
    if is_permit then
        found = leased_until(lock, owner)
    else
        -- pcall: a key of another type is not held.
        found = redis.pcall('hget', lock, owner)
    end
    if type(found) == 'table' then
        return not string.find(found.err, 'WRONGTYPE', 1, true) and found
    elseif is_permit then
        return found and found > now_millis()
    end
    if found and has_own_lease(lock, owner) then
        local left = hold_left(lock, owner)
        return type(left) == 'table' and left or left ~= -2
    end
    return found and true
end

local locks, kept = tonumber(ARGV[1]), ARGV[2]
for i = 1, locks do
    local lock, owner, number = KEYS[2 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]
    local is_permit = ARGV[3 * i + 2] == '1'
    local held = is_held(lock, owner, is_permit)
    if type(held) == 'table' then
        return held
    elseif not held then
        return (is_permit or redis.call('exists', lock) == 0) and i or -i
    end
    local last = redis.pcall('get', KEYS[2 * i])
    if type(last) == 'table' then
        return wrong_type_in(KEYS[2 * i], 'string', last)
    end
    local is_own = last and string.sub(last, 1, #owner + 1) == owner .. ' '
    if is_own and tonumber(string.sub(last, #owner + 2)) >= tonumber(number) then
        return nil
    end
end
-- Before the commands: what Redis refuses to write, for example without memory, it refuses here.
for i = 1, locks do
    redis.call('set', KEYS[2 * i], ARGV[3 * i] .. ' ' .. ARGV[3 * i + 1], 'px', kept)
end
local replies, reply = {}, {}
local at = 3 * locks + 3
while at < #ARGV do
    local words = tonumber(ARGV[at])
    local result = redis.pcall(unpack(ARGV, at + 1, at + words))
    replies[#replies + 1] = result
    if type(result) == 'table' and result.err then
        replies[#replies] = false
        reply[#reply + 1] = #replies
        reply[#reply + 1] = result.err
    end
    at = at + words + 1
end
table.insert(reply, 1, replies)
return reply
