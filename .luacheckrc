-- What a script finds inside Redis: Lua 5.1, and these.
std = "lua51"
read_globals = { "redis", "KEYS", "ARGV" }
-- A file in shared/ is put before the scripts that use its function.
files["lua/shared"] = { ignore = { "211" } }
files["lua/*.lua"] = {
    read_globals = { "holder_of", "now_millis", "type_error", "keep", "sweep", "notify", "tell" },
}
