-- Removes the fields of an owner from a lock: copies of a request may have added several. Returns
-- one of them; nil if there is none; or nil and an error.
local function remove_owner(lock, names)
    -- Usually there is one name, and gmatch takes longer.
    if redis.pcall('hdel', lock, names) == 1 then
        return names
    end
    local field
    for name in string.gmatch(names, '%S+') do
        -- pcall: a key of another type must not prevent the release of the other locks.
        local deleted = redis.pcall('hdel', lock, name)
        if deleted == 1 then
            field = name
        elseif deleted ~= 0 and not string.find(deleted.err, 'WRONGTYPE', 1, true) then
            return nil, deleted
        end
    end
    return field
end
