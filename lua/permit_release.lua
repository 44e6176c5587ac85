-- Releases permits of semaphores. Calls the next clients in the line, and notifies those that
-- listen to the channel.
--
-- KEYS[2i-1]  the number of available permits
-- KEYS[2i]    the leased permits: a sorted set of ids with the ends of their leases
-- ARGV[2i-1]  the ids that the permits may have, of 16 bytes each
-- ARGV[2i]    the channel for permits that become available
-- ARGV[2n+1]  the command that publishes: publish or spublish
-- reply[i]    released: 1 + 2 * listeners + called. Listeners is the number of clients that
--             received the message, and called is 1 if clients in the line have been called and
--             have not answered, else 0. 0: no permit has such an id
-- reply       the list of these; for one permit, its reply alone. An error if a key has another
--             type or form

-- require "permits"
-- require "line_of"

-- One permit with one id, and no client waits.
if #KEYS == 2 and #ARGV[1] == 16 and redis.pcall('exists', line_of(KEYS[1])) == 0 then
    local ends = redis.pcall('zscore', KEYS[2], ARGV[1])
    if type(ends) == 'string' then
        local available = end_leases(KEYS[1], KEYS[2], { ARGV[1] }, { ends })
        if type(available) == 'table' then
            return available
        end
        -- pcall: the permit is free even if the user lacks permission to publish.
        local heard = redis.pcall(ARGV[3], ARGV[2], text_of(available))
        return 1 + 2 * (tonumber(heard) or 0)
    end
end

-- require "permit_line"

local pcall = redis.pcall
local publish = ARGV[#ARGV]
local replies = {}
for i = 1, #KEYS, 2 do
    local key, leases, ids, channel = KEYS[i], KEYS[i + 1], ARGV[i], ARGV[i + 1]
    local reply, leased, all_ends = 0, {}, {}
    for at = 1, #ids, 16 do
        local id = string.sub(ids, at, at + 15)
        local ends = pcall('zscore', leases, id)
        if type(ends) == 'table' then
            return wrong_type('leases', leases, 'sorted set', ends)
        elseif ends then
            leased[#leased + 1], all_ends[#all_ends + 1] = id, ends
        end
    end
    if leased[1] then
        local available = end_leases(key, leases, leased, all_ends)
        if type(available) == 'table' then
            return available
        end
        local listeners, _, called = notify_free(key, channel, available, publish)
        reply = 1 + 2 * listeners + (called and 1 or 0)
    end
    replies[#replies + 1] = reply
end
-- Redis takes longer to convert a list.
return #replies == 1 and replies[1] or replies
