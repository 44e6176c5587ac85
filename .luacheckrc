-- What a script finds inside Redis: Lua 5.1, and these.
std = "lua51"
read_globals = { "redis", "KEYS", "ARGV" }
files["lua/shared"] = { ignore = { "211" } }

-- And the names of the shared files. A unit test of src/script checks that each script requires the
-- files of the functions that it calls.
for line in io.lines("src/script/source.rs") do
    for file in line:gmatch('"([%l_]+)"') do
        for code in io.lines("lua/shared/" .. file .. ".lua") do
            local names = code:match("^local function ([%w_]+)") or code:match("^local ([%u_, ]+) =")
            for name in (names or ""):gmatch("[%w_]+") do
                table.insert(read_globals, name)
            end
        end
    end
end
