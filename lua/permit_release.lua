-- Releases permits of semaphores. Calls the next clients in the line, and notifies those that
-- listen to the channel. All messages: src/protocol/message.rs.
--
-- KEYS[2i-1]  the number of available permits
-- KEYS[2i]    the leased permits: a sorted set of ids with the ends of their leases
-- ARGV[3i-2]  the ids that the permits may have, of 16 bytes each
-- ARGV[3i-1]  the channel for permits that become available
-- ARGV[3i]    the number of permits
-- ARGV[3n+1]  the command that publishes: publish or spublish
-- reply[i]    released: 1 + 2 * listeners + called. Listeners is the number of clients that
--             received the message, and called is 1 if clients in the line have been called and
--             have not answered, else 0. 0: not all of the permits were leased. Those that were
--             are released
-- reply       the list of these; for one permit, its reply alone. An error if a key has another
--             type or form

-- require "permits"
-- require "line_of"

local publish = ARGV[#ARGV]

-- One permit with one id, and no client waits.
local only_id, only_channel = unpack(ARGV, 1, 2)
if #KEYS == 2 and #only_id == 16 and redis.pcall('exists', line_of(KEYS[1])) == 0 then
    local ends = redis.pcall('zscore', KEYS[2], only_id)
    if type(ends) == 'string' then
        local available = end_leases(KEYS[1], KEYS[2], { only_id }, { ends })
        if type(available) == 'table' then
            return available
        end
        -- pcall: the permit is free even if the user lacks permission to publish.
        local heard = redis.pcall(publish, only_channel, text_of(available))
        return 1 + 2 * (tonumber(heard) or 0)
    end
end

-- require "permit_line"

local pcall = redis.pcall
local replies = {}
for i = 1, #KEYS, 2 do
    local key, leases, of_permits = KEYS[i], KEYS[i + 1], (3 * i - 1) / 2
    local ids, channel, permits = unpack(ARGV, of_permits, of_permits + 2)
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
        if #leased >= tonumber(permits) then
            reply = 1 + 2 * listeners + (called and 1 or 0)
        end
    end
    replies[#replies + 1] = reply
end
-- Redis takes longer to convert a list.
return #replies == 1 and replies[1] or replies
