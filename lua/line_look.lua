-- Looks after the lines of locks. If a lock is free, and those that were called have not answered in
-- time or no client was called, calls the next ones. Keeps the lines in which the client waits.
--
-- KEYS[i]       a lock: a hash of owner to hold count, or a read-write lock (shared/read_write.lua);
--               or a semaphore: the number of free permits
-- ARGV[4i-3]    the place of the client, if one of its threads waits for the lock; else empty
-- ARGV[4i-2]    1: the last look found a call without an answer; else 0
-- ARGV[4i-1]    1: a semaphore; else 0
-- ARGV[4i]      1: the thread also listens to the channel for releases; else 0
-- ARGV[4n+1]    the command that publishes: publish or spublish
-- reply[i]      after how many milliseconds the client looks again; 0: nothing is left to look
--               after; -1: the thread has to ask, because the client has no place, because the line
--               cannot be used, or because the client has to listen to the channel for releases
--
-- The watchdog of a client that waits looks every two seconds if at most ten clients are before it:
-- a holder that died, a client of Redisson, or a process that has ended looks after no call. The
-- others need not. They look after eight times the wait of the first client, so that a line that was
-- lost delays no client for much longer than it took before, and many clients cost few requests.
--
-- A client of Redisson calls no client. The first client listens to its release: it learns from the
-- reply to its request that it has to. If the message is lost that lets it ask, or if those before it
-- have died, a look lets it ask.

-- require "end_wait"
-- require "read_write"
-- require "permit_line"

-- The number of clients that look often, and after how many milliseconds they do.
local NEAR = 10
local SOON = 2000

-- The longest time, in milliseconds.
local LATEST = 28000

local publish = ARGV[#ARGV]

-- True if a client of Redisson has this lock, which has no readers.
local function is_of_redisson(lock, mode)
    local holder = mode == 'write' and owner_of(lock, true) or holder_of(lock)
    return holder and not is_of_this_library(holder)
end

-- Looks after the line of a lock. Returns for how many milliseconds a call is valid that has no
-- answer; nil without one; -1 if the thread has to ask.
local function look_at_lock(lock, line, place, follows, listens)
    local first, called = first_in(line)
    local mode = redis.pcall('hget', lock, 'mode')
    local is_read = mode == 'read'
    local is_free, _, _, foreign
    if is_read then
        is_free, _, _, foreign = end_if_unread(lock)
    else
        is_free = redis.call('exists', lock) == 0
    end
    if not is_free then
        local score = is_read and place ~= '' and redis.call('zscore', line, place)
        local is_reader = score and score % 1 == READER
        if not is_read then
            foreign = is_of_redisson(lock, mode)
        elseif is_reader then
            -- It does not wait for the release of other readers.
            foreign = nil
        end
        if foreign and first == place then
            return not listens and -1 or nil
        end
        -- A reader that acquired the lock has called the next one. And a reader is kept out by a
        -- writer before it, which may have stopped. The first client, which hears of the release by
        -- Redisson, may have died or stopped, too. One call finds out.
        local may_call = is_reader and not follows or foreign and place ~= ''
        if not (is_read or foreign) or not called and not may_call then
            return nil
        end
    end
    if (not called or time_left(called) == 0) and not call_next(lock, publish) then
        -- The user may not publish, so the thread has to ask.
        return place ~= '' and -1 or nil
    end
    _, called = first_in(line)
    return called and math.ceil(time_left(called) / 1000)
end

-- After how many milliseconds a client with this rank looks again. The second member is a place: the
-- first or the second, because the mark of a call may be before them. If it is none in the line of a
-- semaphore, the time is the longest.
local function next_look(line, rank)
    if rank <= NEAR then
        return SOON
    end
    local entered = redis.call('zrange', line, 1, 1, 'withscores')[2]
    local waited = math.max(now_micros() - tonumber(entered or 0), 0) / 1000
    -- Clients that began to wait together do not look together.
    return math.min(SOON + 8 * waited, LATEST - rank % 16 * 250)
end

local function look(lock, place, follows, of_permits, listens)
    local line = line_of(lock)
    if redis.call('exists', line) == 0 then
        return place == '' and 0 or -1
    end
    local pending, rank
    if of_permits then
        local free = tonumber(redis.call('get', lock) or 0) or 0
        pending, rank = look_at_permits(lock, free, place, listens, publish)
    else
        pending = look_at_lock(lock, line, place, follows, listens)
        rank = place ~= '' and redis.call('zrank', line, place)
    end
    if place == '' then
        return pending or 0
    end
    if not rank then
        return -1
    end
    redis.call('pexpire', line, KEPT)
    if pending == -1 then
        return -1
    end
    return math.ceil(math.min(pending or LATEST, next_look(line, rank)))
end

local replies = {}
for i, lock in ipairs(KEYS) do
    local place, follows = ARGV[4 * i - 3], ARGV[4 * i - 2] == '1'
    local of_permits, listens = ARGV[4 * i - 1] == '1', ARGV[4 * i] == '1'
    local is_done, after = pcall(look, lock, place, follows, of_permits, listens)
    -- The user may not use the line, its key has another type, or a cluster is moving the slot. No
    -- release calls a client then.
    replies[i] = is_done and after or place ~= '' and -1 or 0
end
return #KEYS == 1 and replies[1] or replies
