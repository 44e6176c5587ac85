-- Looks after the lines of locks. If a lock is free, and those that were called have not answered
-- in time or no client was called, calls the next ones. Keeps the lines in which the client waits.
--
-- KEYS[i]       a lock: a hash of owner to hold count, or a read-write lock
--               (shared/read_write.lua); or a semaphore: the number of free permits
-- ARGV[4i-3]    the place of the client, if one of its threads waits for the lock; else empty
-- ARGV[4i-2]    1: the last look found a call without an answer; else 0
-- ARGV[4i-1]    1: a semaphore; 2: one whose permits have leases; else 0
-- ARGV[4i]      1: the thread also listens to the channel for releases; else 0
-- ARGV[4n+1]    the command that publishes: publish or spublish
-- reply[i]      after how many milliseconds the client looks again; 0: nothing is left to look
--               after; -1: the thread has to ask, because the client has no place, because the line
--               cannot be used, because the client has to listen to the channel for releases,
--               because it was called and has not answered, or because leases of permits have
--               ended: its request makes them available
--
-- The watchdog of a client that waits looks every two seconds if at most ten clients are before it:
-- a holder that died, a client of Redisson, or a process that has ended looks after no call. Those
-- before a client may have died, too, so each further client looks, but a little more rarely than
-- the one before it. Many clients cost few requests.
--
-- A client of Redisson calls no client. The first client listens to its release: it learns from the
-- reply to its request that it has to. If the message is lost that lets it ask, or if those before
-- it have died, a look lets it ask.

-- require "end_wait"
-- require "read_write"
-- require "permit_line"
-- require "tagged"

-- The number of clients that look often, after how many milliseconds they do, and how much later
-- each further one does.
local NEAR = 10
local SOON = 2000
local RARER = 500

-- The longest time, in milliseconds.
local LATEST = 28000

local publish = ARGV[#ARGV]

-- True if a client of Redisson has this lock, which has no readers.
local function is_of_redisson(lock, mode)
    local holder = mode == 'write' and owner_of(lock, true) or holder_of(lock)
    return holder and not is_of_this_library(holder)
end

-- Looks after the line of a lock. Returns for how many milliseconds a call of other clients is
-- valid that has no answer; nil without one; -1 if the thread has to ask.
local function look_at_lock(lock, line, place, follows, listens)
    local first, called = first_in(line)
    local mode = redis.pcall('hget', lock, 'mode')
    local is_read = mode == 'read'
    local is_free, foreign
    if is_read then
        local is_unread, _, _, other = end_if_unread(lock)
        is_free, foreign = is_unread, other
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
        local may_call = (is_reader or foreign and place ~= '') and not follows
        if not (is_read or foreign) or not called and not may_call then
            return nil
        end
    end
    if (not called or time_left(called) == 0) and not call_next(lock, publish) then
        -- The user may not publish, so the thread has to ask.
        return place ~= '' and -1 or nil
    end
    local _, now_called = first_in(line)
    if now_called and is_among_called(line, place, now_called) then
        -- The message may be lost.
        return -1
    end
    return now_called and math.ceil(time_left(now_called) / 1000)
end

-- After how many milliseconds a client with this rank looks again.
local function next_look(rank)
    -- Clients that began to wait together do not look together.
    return math.min(SOON + RARER * math.max(rank - NEAR, 0), LATEST - rank % 16 * 250)
end

-- True if leases of permits of this semaphore have ended.
local function has_expired_permits(lock)
    local now = string.format('%.0f', math.floor(now_micros() / 1000))
    return redis.call('zcount', tagged(lock) .. ':timeout', '-inf', now) > 0
end

local function look(lock, place, follows, permits, listens)
    local line = line_of(lock)
    if redis.call('exists', line) == 0 then
        return place == '' and 0 or -1
    end
    local pending, rank
    if permits ~= '0' then
        local free = tonumber(redis.call('get', lock) or 0) or 0
        pending, rank = look_at_permits(lock, free, place, listens, publish)
        pending = permits == '2' and has_expired_permits(lock) and -1 or pending
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
    return math.ceil(math.min(pending or LATEST, next_look(rank)))
end

local replies = {}
for i, lock in ipairs(KEYS) do
    local place, follows = ARGV[4 * i - 3], ARGV[4 * i - 2] == '1'
    local permits, listens = ARGV[4 * i - 1], ARGV[4 * i] == '1'
    local is_done, after = pcall(look, lock, place, follows, permits, listens)
    -- The user may not use the line, its key has another type, or a cluster is moving the slot. No
    -- release calls a client then.
    replies[i] = is_done and after or place ~= '' and -1 or 0
end
return #KEYS == 1 and replies[1] or replies
