-- Executes a request once, although several copies of it may arrive: the reply is recorded.
-- Included in the scripts that change a number.
--
-- The records of a client are a hash: for each lane, the last request on it that changed something,
-- as its number and its reply. On a lane, a client sends one request after another, with rising
-- numbers.

-- Returns the recorded reply of the request; nil if there is none; an error if the request is not
-- to be executed any more.
local function recorded(records, lane, number)
    local last = redis.pcall('hget', records, lane)
    if type(last) == 'table' then
        return last
    end
    local last_number, reply = string.match(last or '', '^(%d+) (-?%d+)$')
    if not last_number or tonumber(last_number) < tonumber(number) then
        return nil
    elseif last_number == number then
        return tonumber(reply)
    end
    return redis.error_reply('ERR this request is over: a newer one was executed')
end

-- Runs the command in `...`, if there is one, and records and returns this reply. Returns an error
-- if Redis refuses that, and then nothing is changed.
local function once(records, lane, number, reply, ...)
    -- For longer than any copy of the request is on its way.
    local result = redis.pcall('hset', records, lane, number .. ' ' .. string.format('%.0f', reply))
    if type(result) == 'number' then
        result = redis.pcall('pexpire', records, 120000)
    end
    if result == 1 and ... then
        result = redis.pcall(...)
    end
    if type(result) == 'table' and result.err then
        redis.pcall('hdel', records, lane)
        return result
    end
    return reply
end
