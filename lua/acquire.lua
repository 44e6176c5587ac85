-- Acquires locks for one owner, all of them or none. Each has hold count 1 then.
--
-- KEYS[1] to KEYS[n]  the locks: each a hash of owner to hold count
-- KEYS[2]     if tokens are requested, of one lock: the last token, an integer
-- ARGV[1]     names of the owner, separated by spaces: the name for this grant, then the names that
--             earlier copies of this request used, whose replies were lost
-- ARGV[2]     lease in milliseconds
-- ARGV[3]     the place of this client in the line (shared/line.lua); empty if it wants none
-- ARGV[4]     1 if the caller has a place and waits if the lock is held, else 0; 0 for several
--             locks
-- ARGV[5]     the largest number of tokens; empty if none are requested
-- ARGV[6]     the command that publishes: publish or spublish
-- reply       nil or { first token, number of tokens }: the owner holds the locks. { milliseconds,
--             i, owner, rank }: another owner holds KEYS[i], and its lease ends in this time (-1:
--             no expiry). With an empty owner: KEYS[i] is reserved for another client for this
--             time. The rank is the number of clients before this one in the line; it is absent if
--             this client is in no line. An error, without any change, if a key has another type or
--             form, or is in use as a fair lock
--
-- A refused caller that waits and has a place enters the line. One that does not wait any more
-- leaves it. A caller without a place may acquire a free lock that is reserved.
--
-- The number of locks is not limited. Most calls acquire free locks for the first time. For them,
-- the script does not call holder_of.
--
-- If an earlier copy of this request acquired a lock, its name is replaced by this one's. A copy
-- that Redis executes later then finds no grant under its own name.

-- require "line_of"
-- require "set_lease"

local with_tokens = ARGV[5] ~= ''
local locks = with_tokens and 1 or #KEYS
local owner = string.match(ARGV[1], '%S+')

-- One lock that is free and has no line. pcall: the user may not use the line, or a cluster is
-- moving the slot.
local existing = locks == 1 and redis.pcall('exists', KEYS[1], line_of(KEYS[1])) or 0
local is_free = locks == 1 and existing == 0
if is_free and not with_tokens then
    redis.call('hset', KEYS[1], owner, '1')
    return set_lease(KEYS[1], ARGV[2])
end

-- require "reserved"
-- require "wrong_type"

-- Tokens are at least the time in microseconds, and rise also after Redis has lost the last.
-- Returns the first one and their number, or an error.
local function new_tokens()
    local last = redis.pcall('get', KEYS[2]) or '0'
    if type(last) == 'table' then
        return wrong_type('token', KEYS[2], 'string', last)
    elseif not string.find(last, '^%d+$') then
        return redis.error_reply('ERR the last fencing token is not a whole number: ' .. KEYS[2])
    end
    local clock = now_micros()
    local token = math.max(tonumber(last) + 1, clock)
    -- While the tokens are ahead of the clock, only one is reserved, so they stay near it.
    local count = token > clock and 1 or tonumber(ARGV[5])
    local new_last = token + (count - 1)
    if new_last >= 9007199254740992 then
        return redis.error_reply('ERR the last fencing token is too large to count on from it')
    end
    -- Without an expiry: a Redisson client would count from 1 after it.
    redis.call('set', KEYS[2], string.format('%.0f', new_last))
    return { token, count }
end

if is_free then
    local tokens = new_tokens()
    if not tokens.err then
        redis.call('hset', KEYS[1], owner, '1')
    end
    return not tokens.err and set_lease(KEYS[1], ARGV[2]) or tokens
end

-- require "tagged"
-- require "copies"
-- require "holder_of"
-- require "kinds"
-- require "end_wait"
-- require "line"

local call, pcall = redis.call, redis.pcall
local place, waits, publish = ARGV[3], ARGV[4] == '1', ARGV[6]

-- True if clients of a fair lock wait for this lock. They would not learn of a release of another
-- kind of lock, nor would this client learn of theirs.
local function has_fair_queue(lock)
    -- pcall: the user may have no permission for this key.
    return pcall('exists', 'redisson_lock_queue:' .. tagged(lock)) == 1
end

local names = ' ' .. ARGV[1] .. ' '

-- The reply that another owner holds KEYS[i], or that it is reserved.
local function refused(i, left, holder)
    local rank
    if waits then
        rank = enter_line(KEYS[i], place)
    elseif place ~= '' then
        for j = 1, locks do
            end_wait(KEYS[j], place, publish)
        end
    end
    return { left, i, holder, rank }
end

-- The number of keys that exist among the locks and the lines. The lines are not used if the user
-- may not use them, or if a cluster is moving the slot, and some of these keys are at the other
-- server: a second line there would stop the move.
if type(existing) == 'table' then
    existing = redis.call('exists', KEYS[1])
    place, waits = '', false
elseif locks > 1 then
    -- In groups, because Lua passes at most about 8,000 values to a function.
    for first = 1, locks, 1000 do
        local last = math.min(first + 999, locks)
        existing = existing + call('exists', unpack(KEYS, first, last))
    end
    -- The number of their lines; an error if the user may not use them, or if a cluster is moving
    -- the slot.
    local lines = {}
    for i = 1, place ~= '' and locks or 0 do
        lines[i] = line_of(KEYS[i])
    end
    local in_line = place ~= '' and redis.pcall('exists', unpack(lines))
    if type(in_line) == 'number' then
        existing = existing + in_line
    else
        place = ''
    end
end

-- For each lock that an earlier copy acquired: the name of that copy.
local found = {}
if existing > 0 then
    for i = 1, locks do
        local holder, _, failure = holder_of(KEYS[i])
        if failure then
            -- With several locks, the error says which one.
            local subject = 'WRONGTYPE lock ' .. i .. ':'
            return redis.error_reply((string.gsub(failure.err, '^WRONGTYPE lock:', subject)))
        end
        if holder then
            if string.find(names, ' ' .. holder .. ' ', 1, true) then
                found[i] = holder
            else
                if is_of_fair_lock(holder) or has_fair_queue(KEYS[i]) then
                    return mixed_kinds(i, 'fair', with_tokens and 'fenced' or 'reentrant')
                end
                return refused(i, call('pttl', KEYS[i]), holder)
            end
        elseif place ~= '' then
            local left = reserved_for(KEYS[i], place, publish)
            if left > 0 then
                return refused(i, left, '')
            end
        end
    end
end

local tokens = with_tokens and new_tokens() or nil
if tokens and tokens.err then
    return tokens
end

for i = 1, locks do
    if found[i] then
        take_over(KEYS[i], found[i], owner, ARGV[2])
    else
        call('hset', KEYS[i], owner, '1')
        local refusal = set_lease(KEYS[i], ARGV[2])
        if refusal then
            for j = 1, locks do
                call('del', KEYS[j])
            end
            return refusal
        end
    end
end
if existing > 0 and place ~= '' then
    for i = 1, locks do
        leave_line(KEYS[i], place)
    end
end
return tokens
