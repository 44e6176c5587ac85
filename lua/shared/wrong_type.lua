-- The error of a command that failed because `key` does not have the type `wanted`, or `failure`
-- itself if it is another error.
local function wrong_type(subject, key, wanted, failure)
    if not string.find(failure.err, 'WRONGTYPE', 1, true) then
        return failure
    end
    -- Without permission for TYPE, the type stays unknown.
    local kind = redis.pcall('type', key).ok or 'value that is not a ' .. wanted
    return redis.error_reply('WRONGTYPE ' .. subject .. ': a ' .. kind)
end

-- The same for a key that belongs to a lock and whose name the client does not know.
local function wrong_type_in(key, wanted, failure)
    local found = wrong_type('records', key, wanted, failure)
    return found == failure and failure
        or redis.error_reply(found.err .. ' in the key "' .. key .. '"')
end
