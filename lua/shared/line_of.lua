-- The key of the line of a lock (line.lua). Names such as `a` and `{a}` have different lines.
local function line_of(lock)
    local has_braces = string.find(lock, '{', 1, true)
    return has_braces and 'leasehold_line::' .. lock or 'leasehold_line:{' .. lock .. '}'
end
