-- Gives a lock to another owner id in one step, if one of these names holds it: when a guard gives
-- its hold away, and when another guard adopts it.
--
-- KEYS[1]  the lock: a hash of owner to hold count, or a read-write lock (shared/read_write.lua)
-- ARGV[1]  names, separated by spaces: the new name, then the names that earlier copies of this
--          request gave, whose replies were lost, then the present name
-- ARGV[2]  least time to live from now on, in milliseconds; never shortens it
-- reply    1: the new name holds the lock; { 0, 1, '' }: no owner holds it; { -1, 1, '' }: another
--          owner holds it, or the lease of this reader has ended. An error, without any change, if
--          the key has another type

-- require "copies"
-- require "hold_left"

local lock, names, lease = KEYS[1], ARGV[1], ARGV[2]
local older = held_name(lock, names)
if not older then
    return { redis.call('exists', lock) * -1, 1, '' }
end
local new = string.match(names, '%S+')
if has_own_lease(lock, older) then
    local left = hold_left(lock, older)
    if type(left) == 'table' then
        return left
    elseif left == -2 then
        return { -1, 1, '' }
    end
    local longer = string.format('%.0f', math.max(left, tonumber(lease)))
    redis.call('set', timeout_key(lock, new), '1', 'px', longer)
    if older ~= new then
        redis.pcall('del', timeout_key(lock, older))
    end
end
take_over(lock, older, new, lease)
return 1
