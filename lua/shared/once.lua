-- Executes a request once, although several copies of it may arrive: the reply is recorded.
-- Included in the scripts of semaphores and latches. Their first keys and arguments are these:
--
-- KEYS[1]  the number
-- KEYS[2]  the records of the client: a hash of lane to request number and reply
-- ARGV[1]  the lane
-- ARGV[2]  the number of the request
-- ARGV[3]  1: an earlier copy of the request is lost; else 0
--
-- The records have the last recorded request on each lane. On a lane, a client sends one request
-- after another, with rising numbers. A reply that changes nothing is recorded only if an earlier
-- copy of its request is lost.

-- require "number_of"

local records, lane, request = KEYS[2], ARGV[1], ARGV[2]

-- For longer than any copy of a request is on its way, in milliseconds: as in
-- src/engine/number/mod.rs. An undo may be later.
local RECORDED = 120000

-- The record of the lane before this request.
local last

-- Returns the recorded reply of the request; nil if there is none; an error if the request is not
-- to be executed any more.
local function recorded()
    last = redis.pcall('hget', records, lane)
    if type(last) == 'table' then
        return wrong_type_in(records, 'hash', last)
    end
    local last_request, reply = string.match(last or '', '^(%d+) (-?%d+)$')
    if not last_request or tonumber(last_request) < tonumber(request) then
        return nil
    elseif last_request == request then
        -- A write, so that WAIT waits for the replicas that have the record. Redis refuses it where
        -- the record may be out of date.
        local kept = redis.pcall('pexpire', records, RECORDED)
        return type(kept) == 'table' and kept or tonumber(reply)
    end
    return redis.error_reply('ERR this request is over: a newer one was executed')
end

-- Runs the command in `...`, if there is one, and records and returns this reply. Returns an error
-- if Redis refuses that, and then nothing is changed.
local function once(reply, ...)
    local record = request .. ' ' .. string.format('%.0f', reply)
    local result = redis.pcall('hset', records, lane, record)
    if type(result) == 'table' then
        return result
    end
    result = redis.pcall('pexpire', records, RECORDED)
    if result == 1 and ... then
        result = redis.pcall(...)
    end
    if type(result) == 'table' and result.err then
        -- Late copies of the request before this one need their record.
        if last then
            redis.pcall('hset', records, lane, last)
        else
            redis.pcall('hdel', records, lane)
        end
        return result
    end
    return reply
end

-- Returns the reply of a request that changes nothing. If an earlier copy is lost, records it: if
-- that copy arrives later, it must not change anything, either.
local function unchanged(reply)
    return ARGV[3] == '1' and once(reply) or reply
end

-- The first step of a request that changes the number. Returns the reply of a request that was
-- executed, or cannot be; else nothing and the number, or false if there is no such key.
local function begin()
    local done = recorded()
    if done then
        return done
    end
    local value, failure = number_of(KEYS[1])
    return failure, value
end
