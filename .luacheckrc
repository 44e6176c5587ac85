-- What a script finds inside Redis: Lua 5.1, and these.
std = "lua51"
read_globals = { "redis", "KEYS", "ARGV" }
