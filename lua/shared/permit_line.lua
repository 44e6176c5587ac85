-- The line of a semaphore (line.lua). A call reserves permits for the client: as many as it needs.
-- Clients are called in their order, as soon as enough permits are free that are not reserved. So
-- as many clients are called as permits came free, and none is overtaken by one behind it. There
-- are two exceptions:
--
-- * If the first called client does not answer in time, it loses its place, and the next two are
--   called together, then four, and so on, however many permits are free. Any of them may be first.
-- * A client that needs more permits than are free keeps those behind it waiting, but lets them
--   pass from time to time (KEEPS_OUT). While it keeps them waiting, it is probed as soon as those
--   before it have answered: it is called, too. Its request is refused, and it keeps its place. A
--   dead or stopped client loses its place, as after every call.
--
-- | member       | score                                                                |
-- |--------------|----------------------------------------------------------------------|
-- | a place      | when the client entered the line; after the call, less CALLED        |
-- | empty        | the mark: since when the first client has not answered, negative     |
-- | ' ' .. place | how many permits the client needs, if it needs more than one         |
-- | '!' .. place | 1: this client listens to the channel for releases                   |
-- | ' ?'         | when a client was last probed, negative                              |
--
-- Clients of Redisson call no other client. One client in the line listens to their releases, and
-- asks: then the script calls those that can have the permits. When it leaves the line, the last
-- client is called, which learns from the reply that it listens from then on. So nearly all clients
-- need no subscription. The messages of scripts that have called the line have a sign, and do not
-- wake the client.
--
-- A place that begins with '~' is that of a client that may not subscribe. A call sends it no
-- message, and reserves permits for it. The client asks often enough.
--
-- All messages: src/protocol/message.rs.

-- require "line_of"
-- require "reserved"

-- Scores of places that were not called are at least ENTERED. Those of the others are negative, and
-- larger than that of the mark.
local CALLED, ENTERED = 2500000000000000, '1000000000000000'

-- The largest number of clients that are called and have not answered. It bounds the time of a
-- script.
local MOST_CALLED = 64

local PROBE = ' ?'

-- The least time between two probes, in microseconds. Otherwise each release would wake a client
-- that it cannot serve.
local PROBED = 1000000

-- For this part of each time, in microseconds, clients that need more permits than are free keep
-- those behind them waiting. For the rest, they let them pass. If they never did, a need for more
-- permits than there are would keep all waiting indefinitely. If they always did, those behind them
-- could take each permit that came free. The clock of the server decides, so all let pass together:
-- a client behind several of them gets a permit only while all of these let it pass. The rest is
-- longer than SOON in line_look.lua, so a look meets it.
local KEEPS_OUT, OF_EACH = 1900000, 4000000

-- Runs a function, and returns its results. Returns nil if Redis refuses a command: the user may
-- not use all of the line, or a cluster is moving the slot, and the line is at the other server.
local function try_line(change, ...)
    local is_done, first, second = pcall(change, ...)
    if is_done then
        return first, second
    end
    return nil
end

-- What is before the places that were not called; nil if the line cannot be used. Each step keeps
-- this table up to date. Redis takes much longer for a score than for a member, so the scripts read
-- few scores.
local function head_of(lock)
    local head = { line = line_of(lock), called = {} }
    local members = redis.pcall(
        'zrangebyscore', head.line, '-inf', '(' .. ENTERED, 'limit', 0, MOST_CALLED + 4
    )
    if members.err then
        return nil
    end
    for _, member in ipairs(members) do
        local sign = string.sub(member, 1, 1)
        if member == PROBE then
            head.has_probe = true
        elseif sign == ' ' then
            head.has_needs = true
        elseif sign == '!' then
            head.listener = string.sub(member, 2)
        elseif sign ~= '' then
            table.insert(head.called, member)
        end
    end
    return head
end

local function needed_by(head, place)
    return head.has_needs and tonumber(redis.call('zscore', head.line, ' ' .. place) or nil) or 1
end

-- The client may not subscribe.
local function is_deaf(place)
    return string.sub(place, 1, 1) == '~'
end

-- Publishes the call of a client. False if the client is gone.
local function hears(lock, place, publish)
    return is_deaf(place) or redis.call(publish, place, 'called ' .. lock) > 0
end

-- The score of the mark, if the first clients that were called have to answer from now on.
local function score_of_mark(round)
    return string.format('-%.0f', time_of_call(round))
end

-- Where a place is among those that were called.
local function at_in_called(head, place)
    for at, called in ipairs(head.called) do
        if called == place then
            return at
        end
    end
end

-- How many places are before this one, without what else is in the line; nil if it is not there.
local function rank_of(head, place)
    local at = at_in_called(head, place)
    if at then
        return at - 1
    end
    local rank = redis.call('zrank', head.line, place)
    if not rank then
        return nil
    end
    local others = head.has_needs and redis.call('zcount', head.line, 2, '(' .. ENTERED) or 0
    others = others + (head.called[1] and 1 or 0) + (head.listener and 1 or 0)
    return math.max(rank - others - (head.has_probe and 1 or 0), 0)
end

-- The client with this one of the called places waits again, or does not wait any more. If it was
-- the first, its mark has been removed.
local function end_call(head, at)
    table.remove(head.called, at)
    if at == 1 and head.called[1] then
        redis.call('zadd', head.line, score_of_mark(0), '')
    end
end

-- Removes members. Also the time of the last probe, if no client is left that could be probed.
local function remove_members(head, ...)
    redis.call('zrem', head.line, ...)
    if head.has_probe and redis.call('zcount', head.line, 2, '(' .. ENTERED) == 0 then
        redis.call('zrem', head.line, PROBE)
        head.has_probe = false
    end
end

-- The client that listened to the channel has left the line. The last client does from now on.
local function choose_listener(lock, head, publish)
    head.listener = nil
    local at = -1
    for _ = 1, REMOVED do
        local last, score = unpack(redis.call('zrange', head.line, at, at, 'withscores'))
        if not last or tonumber(score) < tonumber(ENTERED) then
            return
        elseif is_deaf(last) then
            at = at - 1
        elseif hears(lock, last, publish) then
            redis.call('zadd', head.line, 1, '!' .. last)
            head.listener = last
            return
        else
            remove_members(head, last, ' ' .. last)
        end
    end
end

-- Removes a place.
local function remove_place(lock, head, place, publish)
    local at = at_in_called(head, place)
    local with_mark = at == 1 and '' or place
    remove_members(head, place, ' ' .. place, '!' .. place, with_mark)
    if at then
        end_call(head, at)
    end
    if head.listener == place then
        choose_listener(lock, head, publish)
    end
end

-- Removes the mark, and the first of the called places: at most this number.
local function remove_silent(lock, head, number, publish)
    local members, has_listener = { '' }, false
    for _ = 1, math.min(number, #head.called) do
        local place = table.remove(head.called, 1)
        has_listener = has_listener or head.listener == place
        for _, sign in ipairs({ '', ' ', '!' }) do
            members[#members + 1] = sign .. place
        end
    end
    remove_members(head, unpack(members))
    if has_listener then
        choose_listener(lock, head, publish)
    end
end

-- True if clients that need more permits than are free let those behind them pass.
local function let_pass()
    return now_micros() % OF_EACH >= KEEPS_OUT
end

local function was_probed(head)
    local probed = head.has_probe and redis.call('zscore', head.line, PROBE)
    local age = probed and now_micros() + probed
    return age and age >= 0 and age < PROBED
end

-- Removes the called clients that have not answered in time. Returns the state of the calls that
-- follow: since when those that were called have to answer, their round, and how many clients are
-- to be called together, however many permits are free; 0 if none has been removed.
local function begin_calls(lock, head, publish)
    local since, round, together = 0, 0, 0
    if head.called[1] then
        since = -(redis.call('zscore', head.line, '') or 0)
        round = since % 64
        if time_left(since) == 0 then
            remove_silent(lock, head, called_together(since), publish)
            round = next_round(since)
            together = called_together(round)
            if head.called[1] then
                redis.call('zadd', head.line, score_of_mark(round), '')
            end
        end
    end
    return { since = since, round = round, together = together }
end

-- The call of this client, which entered the line then, was published: it has to answer.
local function note_call(head, calls, place, entered)
    local line, called = head.line, head.called
    local score = string.format('%.0f', entered - CALLED)
    if not called[1] then
        calls.round = calls.together > 0 and calls.round or 0
        redis.call('zadd', line, score, place, score_of_mark(calls.round), '')
    else
        while calls.together == 0 and 2 ^ calls.round > #called do
            -- This client has more time to answer than those that the mark is about.
            calls.since, calls.round = calls.since - 1, calls.round - 1
            redis.call('zadd', line, string.format('-%.0f', calls.since), '')
        end
        redis.call('zadd', line, score, place)
    end
    called[#called + 1] = place
    calls.together = math.max(calls.together - 1, 0)
end

-- Decides for one place after another, in their order, whether its client is called:
--
-- | the next place                                              | what is done                 |
-- |-------------------------------------------------------------|------------------------------|
-- | there is none, or it is `place`, and that was not refused   | the end                      |
-- | it is `place`, which was refused, and can have its permits  | the end                      |
-- | MOST_CALLED have not answered                               | the end, without a result    |
-- | needs more than are left, in a time in which it lets pass   | it is skipped                |
-- | needs more, and is `place`, was probed lately, or others    | it keeps those behind it out:|
-- | were called, which have to answer before it is probed       | the end, without a result    |
-- | its client does not listen                                  | it is removed                |
-- | any other                                                   | it is called                 |
--
-- All that were called reserve what they need. When no permit is left, that is the end, too.
-- Returns at the end how many permits are left for `place`, which is empty for a client that is
-- behind all; else nil.
local function call_before(lock, head, place, free, publish, is_refused)
    if free <= 0 then
        return nil
    end
    local called, calls = head.called, begin_calls(lock, head, publish)
    local left, from = free, ENTERED
    for _, other in ipairs(called) do
        left = left - needed_by(head, other)
    end
    for _ = 1, REMOVED do
        if left <= 0 and calls.together == 0 then
            return nil
        end
        local next, entered = unpack(
            redis.call('zrangebyscore', head.line, from, '+inf', 'withscores', 'limit', 0, 1)
        )
        if not next or next == place and not is_refused then
            -- Of clients that are called together, any may be the first: they reserve nothing.
            return next and calls.together > 0 and free or left
        end
        local needed = needed_by(head, next)
        local fits = calls.together > 0 or left >= needed
        if next == place and fits then
            return left
        elseif #called == MOST_CALLED then
            return nil
        elseif not fits and let_pass() then
            from = '(' .. entered
        elseif not fits and (next == place or called[1] or was_probed(head)) then
            -- It is not probed now: it could take what is reserved for those that were called.
            head.keeps_out = entered
            return nil
        elseif not hears(lock, next, publish) then
            remove_place(lock, head, next, publish)
        else
            note_call(head, calls, next, entered)
            if not fits or needed > free then
                redis.call('zadd', head.line, string.format('-%.0f', now_micros()), PROBE)
                head.has_probe = true
            end
            left = left - needed
        end
    end
    return nil
end

-- True if a client may take this number of the free permits. Calls the clients before it. A client
-- without a place is behind all others.
local function may_take(lock, head, place, needed, free, publish)
    if free < needed or not head or at_in_called(head, place) then
        return free >= needed
    end
    return try_line(function()
        return (call_before(lock, head, place, free, publish) or 0) >= needed
    end) ~= false
end

-- The client has taken permits, or gives up: removes its place. Calls the next clients if permits
-- are free. True if clients have been called and have not answered.
local function leave_permits(lock, head, place, free, publish)
    return head and try_line(function()
        if place ~= '' then
            remove_place(lock, head, place, publish)
        end
        if free > 0 then
            call_before(lock, head, '', free, publish)
        end
        return head.called[1] ~= nil
    end)
end

-- The client has entered the line with a new place.
local function begin_place(lock, head, place, publish)
    -- It may subscribe since then, or may not any more.
    local other = is_deaf(place) and string.sub(place, 2) or '~' .. place
    if redis.call('zrem', head.line, other) == 1 then
        if head.listener == other and not is_deaf(place) then
            head.listener = nil
        end
        remove_place(lock, head, other, publish)
    end
    local last = redis.call('zrange', head.line, -1, -1)[1]
    if last ~= place then
        -- The clock was set back, or that of a new master is behind.
        local score = redis.call('zscore', head.line, last) + 1
        redis.call('zadd', head.line, string.format('%.0f', score), place)
    end
end

-- The client waits: it keeps its place, or enters the line. Returns how many places are before its
-- own, and 1 if it listens to the channel for releases, else 0; nil if it can have no place.
local function await_permits(lock, head, place, needed, free, publish)
    if not head then
        return nil
    end
    return try_line(function()
        local line, other = head.line, head.listener
        local added = redis.call('zadd', line, 'nx', string.format('%.0f', now_micros()), place)
        if added == 1 then
            begin_place(lock, head, place, publish)
        elseif other and other ~= place and redis.call(publish, other, '') == 0 then
            -- It is not the first request of this client, and the client that listened is dead.
            if not is_deaf(place) then
                head.listener = nil
            end
            remove_place(lock, head, other, publish)
        end
        local at = at_in_called(head, place)
        if at then
            -- It was probed, or a client that is not in the line has taken the permits.
            local score = redis.call('zscore', line, place) + CALLED
            redis.call('zadd', line, string.format('%.0f', score), place)
            if at == 1 then
                redis.call('zrem', line, '')
            end
            end_call(head, at)
        end
        if needed > 1 then
            redis.call('zadd', line, needed, ' ' .. place)
            head.has_needs = true
        elseif head.has_needs then
            redis.call('zrem', line, ' ' .. place)
        end
        if not head.listener and not is_deaf(place) then
            redis.call('zadd', line, 1, '!' .. place)
            head.listener = place
        end
        redis.call('pexpire', line, KEPT)
        call_before(lock, head, place, free, publish, true)
        -- The place is gone if its client does not listen yet.
        return rank_of(head, place) or 0, head.listener == place and 1 or 0
    end)
end

-- Permits are free. Calls the clients that can have them, and notifies those that listen to the
-- channel. Returns how many listen, whether clients wait in the line, and whether some of these
-- have been called and have not answered. Redisson reads the message as a number. It has a sign if
-- clients in the line have been called, so they need not listen.
local function notify_free(lock, channel, free, publish)
    local head = head_of(lock)
    local waiting, called = nil, nil
    if head then
        waiting, called = try_line(function()
            call_before(lock, head, '', free, publish)
            local is_called = head.called[1] ~= nil
            return is_called or redis.call('exists', head.line) == 1, is_called
        end)
    end
    -- pcall: the permits are free even if the user lacks permission to publish.
    local heard = redis.pcall(publish, channel, string.format(waiting and '%+.0f' or '%.0f', free))
    return tonumber(heard) or 0, waiting, called
end

-- If permits are free, calls the clients that can have them, and removes those that have not
-- answered in time. Returns after how many milliseconds the line is to be looked at again: when the
-- time of the called clients is over, or a client lets those behind it pass; nil if it need not be.
-- And how many places are before this one; nil if it is not there, or the line cannot be used.
--
-- If the client that listens to the channel has died, the last one does from now on. If this client
-- has to listen, and does not know it, or has not answered a call, which may be lost, the time is
-- -1.
local function look_at_permits(lock, free, place, listens, publish)
    local head = head_of(lock)
    if not head then
        return nil
    end
    return try_line(function()
        local line = head.line
        local left
        if free > 0 then
            call_before(lock, head, '', free, publish)
            local entered = head.keeps_out
            if head.called[1] then
                left = time_left(-redis.call('zscore', line, ''))
            elseif
                entered
                and redis.call('zrangebyscore', line, '(' .. entered, '+inf', 'limit', 0, 1)[1]
            then
                left = KEEPS_OUT - now_micros() % OF_EACH
            end
        end
        local other = head.listener
        if place ~= '' and other and other ~= place and redis.call(publish, other, '') == 0 then
            remove_place(lock, head, other, publish)
        end
        local rank = place ~= '' and rank_of(head, place) or nil
        if rank and (head.listener == place and not listens or at_in_called(head, place)) then
            return -1, rank
        end
        return left and math.max(math.ceil(left / 1000), 1), rank
    end)
end
