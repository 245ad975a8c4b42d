/**
 * The shared books as scripts, each of which Redis runs alone. A worker's book is a hash: by
 * router, "requests uncachedTokens heldBlocks". Routers are a hash: when each was last heard of, by
 * Redis's own clock. What a router booked counts while it is heard of.
 */

/** Hash of all routers. */
export const ROUTERS_KEY = "perigee:books:routers";

/** A worker's book; another epoch has another one. */
export function bookKey(worker: string, epoch: string): string {
  return `perigee:books:worker:${epoch}:${worker}`;
}

/** Routers that are alive, from a clock that may have been set in either direction. */
const LIVE_ROUTERS = `
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lease = tonumber(ARGV[2])
local heard = redis.call('hgetall', KEYS[1])
local live = {}
for at = 1, #heard, 2 do
  local age = now - tonumber(heard[at + 1])
  if age < lease and age > -lease then
    live[#live + 1] = heard[at]
  elseif heard[at] ~= ARGV[1] then
    redis.call('hdel', KEYS[1], heard[at])
  end
end`;

const READ_LOAD = `
local function load(key)
  local n, u, h = 0, 0, 0
  if #live > 0 then
    for _, text in ipairs(redis.call('hmget', key, unpack(live))) do
      if text then
        local a, b, c = string.match(text, '^(%S+) (%S+) (%S+)$')
        n, u, h = n + tonumber(a), u + tonumber(b), h + tonumber(c)
      end
    end
  end
  return n, u, h
end`;

const ADD = `
local function add(key, n, u, h)
  local a, b, c = 0, 0, 0
  local text = redis.call('hget', key, ARGV[1])
  if text then a, b, c = string.match(text, '^(%S+) (%S+) (%S+)$') end
  n, u, h = math.max(0, a + n), math.max(0, b + u), math.max(0, c + h)
  redis.call('hset', key, ARGV[1], string.format('%d %d %d', n, u, h))
  redis.call('pexpire', key, 10 * tonumber(ARGV[2]))
end`;

const HEARD = `redis.call('hset', KEYS[1], ARGV[1], now)`;

/**
 * KEYS: routers, a book per bid. ARGV: router, lease, then per bid: cost, cost per uncached token,
 * cost per request, seen requests, seen uncached tokens, uncached tokens and blocks to book.
 * Returns the chosen bid from 0, then requests, uncached tokens and blocks per bid.
 */
export const RESERVE = `${LIVE_ROUTERS}
${HEARD}
local isLive = false
for _, router in ipairs(live) do if router == ARGV[1] then isLive = true end end
if not isLive then live[#live + 1] = ARGV[1] end
${READ_LOAD}
${ADD}
local best, least, loads = 0, math.huge, {}
for bid = 1, #KEYS - 1 do
  local n, u, h = load(KEYS[bid + 1])
  loads[bid] = { n, u, h }
  local at = 2 + (bid - 1) * 7
  local came = ARGV[at + 2] * (u - ARGV[at + 5]) + ARGV[at + 3] * (n - ARGV[at + 4])
  local cost = ARGV[at + 1] + came
  if cost < least then best, least = bid, cost end
end
if best == 0 then best = 1 end
local at = 2 + (best - 1) * 7
local booked = { 1, tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7]) }
add(KEYS[best + 1], booked[1], booked[2], booked[3])
local answer = { best - 1 }
for bid, found in ipairs(loads) do
  for place = 1, 3 do
    answer[#answer + 1] = found[place] + (bid == best and booked[place] or 0)
  end
end
return answer`;

/** KEYS: a book. ARGV: router, lease, changes of requests, uncached tokens and blocks. */
export const ADJUST = `${ADD}
add(KEYS[1], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]))`;

/**
 * KEYS: routers, books of this router. ARGV: router, lease, then per book what it holds in all. The
 * router is alive, whatever was lost before.
 */
export const SYNC = `${LIVE_ROUTERS}
${HEARD}
for book = 2, #KEYS do
  local at = 2 + (book - 2) * 3
  local text = ARGV[at + 1] .. ' ' .. ARGV[at + 2] .. ' ' .. ARGV[at + 3]
  if text == '0 0 0' then
    redis.call('hdel', KEYS[book], ARGV[1])
  else
    redis.call('hset', KEYS[book], ARGV[1], text)
    redis.call('pexpire', KEYS[book], 10 * lease)
  end
end`;
