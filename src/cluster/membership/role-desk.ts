/** Of several routers one decides about roles, by what all of them are asked. */
import type { RedisLink } from "./redis-link.ts";

/** Whose turn it is, and what each router was asked lately, by router. */
const DESK_KEY = "perigee:roles:desk";
const LOADS_KEY = "perigee:roles:loads";
const LEASE_MS = 5000;
const ROUTERS_MAX = 64;
/** Longest word of a router that is read. */
const TEXT_LENGTH_MAX = 65_536;

/**
 * KEYS: desk, loads. ARGV: router, lease, text. Whether the router holds the desk, then the texts
 * of the others that are alive, by Redis's own clock, which may be set in either direction.
 */
const TELL = `
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lease = tonumber(ARGV[2])
redis.call('hset', KEYS[2], ARGV[1], string.format('%.0f', now) .. ' ' .. ARGV[3])
redis.call('pexpire', KEYS[2], 10 * lease)
local holder = redis.call('get', KEYS[1])
if not holder or holder == ARGV[1] then
  holder = ARGV[1]
  redis.call('set', KEYS[1], holder, 'px', lease)
end
local found = { holder == ARGV[1] and '1' or '0' }
local all = redis.call('hgetall', KEYS[2])
for at = 1, #all, 2 do
  if all[at] ~= ARGV[1] then
    local told, text = string.match(all[at + 1], '^(%d+) (.*)$')
    local age = now - (tonumber(told) or 0)
    if age < lease and age > -lease then
      if #found <= ${ROUTERS_MAX} and #text <= ${TEXT_LENGTH_MAX} then found[#found + 1] = text end
    else
      redis.call('hdel', KEYS[2], all[at])
    end
  end
end
return found`;

/** Gives the desk back, if it is the router's: another one need not wait for the lease to end. */
const LEAVE = `
redis.call('hdel', KEYS[2], ARGV[1])
if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end
return 1`;

export interface RoleDeskOptions {
  readonly link: RedisLink;
  /** Unique for each start of a router. */
  readonly router: string;
  /** A router that says nothing for so long leaves the desk to another one. Default: 5 s. */
  readonly leaseMs?: number;
}

/** What a router learns when it tells its own. */
export interface ToldDesk {
  /** It decides until it tells again, or the lease ends. */
  readonly decides: boolean;
  /** What the others told, unread. */
  readonly others: readonly string[];
}

export class RoleDesk {
  readonly #options: RoleDeskOptions;

  /** The link stays its owner's. */
  constructor(options: RoleDeskOptions) {
    this.#options = options;
  }

  /** Rejects where Redis is away: no router decides then. */
  async tell(text: string): Promise<ToldDesk> {
    const { leaseMs = LEASE_MS } = this.#options;
    const found = await this.#run(TELL, [String(leaseMs), text]);
    const [turn, ...others] = Array.isArray(found) ? found.map(String) : [];
    return { decides: turn === "1", others };
  }

  async close(): Promise<void> {
    if (!this.#options.link.isReady) return;
    await this.#run(LEAVE, []).catch(() => {}); // The lease ends by itself.
  }

  async #run(script: string, more: readonly string[]): Promise<unknown> {
    const { link, router } = this.#options;
    try {
      return await link.client.eval(script, 2, DESK_KEY, LOADS_KEY, router, ...more);
    } catch (error) {
      link.failed(error);
      throw error;
    }
  }
}
