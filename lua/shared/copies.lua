-- The names of a request: several copies of it may arrive, and each has a name of its own. The
-- names of the copies whose replies were lost follow that of this copy, with spaces between them.

-- The name under which one of the copies holds a lock; nil if none does.
local function held_name(lock, names)
    for name in string.gmatch(names, '%S+') do
        if redis.call('hexists', lock, name) == 1 then
            return name
        end
    end
end

-- An earlier copy of this request acquired the lock under the name `older`. This copy has the lock
-- now. A copy that Redis executes later then finds no grant under its own name.
local function take_over(lock, older, name, lease)
    redis.call('hset', lock, name, '1')
    if older ~= name then
        redis.call('hdel', lock, older)
    end
    if redis.call('pttl', lock) < tonumber(lease) then
        redis.call('pexpire', lock, lease)
    end
end
