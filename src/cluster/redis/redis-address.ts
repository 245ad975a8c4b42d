import { Redis, type RedisOptions } from "ioredis";
import { EngineError } from "#base";

const SENTINEL_PORT = 26_379;
const SENTINELS_MAX = 32;
/** A sentinel that is silent is passed over after this. */
const SENTINEL_MS = 1000;
const RETRY_MS_MAX = 1000;
/** See `isBetweenRounds`. */
const FIRST_RETRY_MS = 1;

/** What each user of a Redis decides for itself. */
export interface RedisConnection {
  readonly connectTimeout: number;
  readonly commandTimeout?: number;
  readonly enableOfflineQueue: boolean;
  readonly maxRetriesPerRequest: number;
  readonly retryStrategy: (times: number) => number;
}

/** Where a Redis is. */
export interface RedisAddress {
  /** For messages: hosts and ports, and a master's name; no user and no password. */
  readonly place: string;
  /** A new connection. With sentinels each of its attempts asks them who is the master. */
  readonly open: (connection: RedisConnection) => Redis;
  /** Whether an error of a connection says nothing: it goes on at once. */
  readonly isNoTrouble: (message: string) => boolean;
}

/**
 * Reads `redis://[user:password@]host[:port][/database]`, or with sentinels
 * `redis+sentinel://[user:password@]host[:port],…/master[/database]`, where user and password are
 * those of the master, and `?sentinel_username=…&sentinel_password=…` those of the sentinels.
 * `rediss` is TLS. Throws INVALID_ARGUMENT for another text.
 */
export function readRedisAddress(text: string): RedisAddress {
  const address = /^rediss?\+sentinel:/.test(text) ? sentinelAddress(text) : plainAddress(text);
  if (address !== null) return address;
  // Not the text itself, which may have a password.
  throw new EngineError(
    "INVALID_ARGUMENT",
    "Cannot use Redis: redis must be an address such as redis://10.0.0.1:6379 or " +
      "redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/MASTER, current value is another text",
    { param: "redis" },
  );
}

function plainAddress(text: string): RedisAddress | null {
  const parsed = URL.canParse(text) ? new URL(text) : null;
  if (parsed === null || !/^rediss?:$/.test(parsed.protocol) || parsed.hostname === "") return null;
  return {
    place: `${parsed.hostname}:${parsed.port || "6379"}`,
    open: (connection) => new Redis(text, { ...connection, reconnectOnError: isReplica }),
    isNoTrouble: () => false,
  };
}

/** A URL has one host: this is no URL. */
const SENTINEL_TEXT = new RegExp(
  "^(?<scheme>rediss?)\\+sentinel://(?:(?<access>[^/?#]*)@)?(?<hosts>[^@/?#]+)" +
    "/(?<name>[\\w.-]{1,200})(?:/(?<db>\\d{1,4}))?(?:\\?(?<query>[^#]*))?$",
);

function sentinelAddress(text: string): RedisAddress | null {
  const { scheme, access = "", hosts, name, db, query } = SENTINEL_TEXT.exec(text)?.groups ?? {};
  if (hosts === undefined || name === undefined) return null;
  const sentinels = hosts.split(",").map(endpointOf);
  const isGiven = (one: Endpoint | null): one is Endpoint => one !== null;
  if (sentinels.length > SENTINELS_MAX || !sentinels.every(isGiven)) return null;
  const own = accessOf(access);
  const theirs = sentinelAccess(new URLSearchParams(query));
  if (own === null || theirs === null) return null;
  const tls = scheme === "rediss" ? TLS : {};
  return {
    place: `${hosts} (master ${name})`,
    open: (connection) =>
      new Redis({
        ...connection,
        ...own,
        ...theirs,
        ...tls,
        ...{ sentinels, name, db: Number(db ?? 0) },
        sentinelCommandTimeout: SENTINEL_MS,
        sentinelRetryStrategy: (times: number) =>
          Math.min(FIRST_RETRY_MS * 4 ** (times - 1), RETRY_MS_MAX),
        reconnectOnError: isNoMaster,
      }),
    isNoTrouble: isBetweenRounds,
  };
}

const TLS = { tls: {}, sentinelTLS: {}, enableTLSForSentinelMode: true } satisfies RedisOptions;

/** A master that became a replica refuses writes: the name may stand for another one now. */
function isReplica({ message }: Error): boolean {
  return message.startsWith("READONLY");
}

/** Or it is cut off from its replicas, with `min-replicas-to-write`: another one may be master. */
function isNoMaster(error: Error): boolean {
  return isReplica(error) || error.message.startsWith("NOREPLICAS");
}

/**
 * The library asks one sentinel per attempt. Behind the last one it says that none was reachable,
 * and begins with the first again: only where it says so twice, or why, there is trouble.
 */
function isBetweenRounds(message: string): boolean {
  return message.endsWith(`Retrying from scratch after ${FIRST_RETRY_MS}ms.`);
}

interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/** Null: no host and port. */
function endpointOf(text: string): Endpoint | null {
  const url = `redis://${text}`;
  if (!URL.canParse(url)) return null;
  const { hostname, port } = new URL(url);
  if (hostname === "" || port === "0") return null;
  return { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || SENTINEL_PORT) };
}

/** Null: no percent-encoding. */
function accessOf(text: string): { username?: string; password?: string } | null {
  const [user = "", ...rest] = text.split(":");
  try {
    const username = decodeURIComponent(user);
    const password = decodeURIComponent(rest.join(":"));
    return { ...(username !== "" && { username }), ...(password !== "" && { password }) };
  } catch {
    return null;
  }
}

/** Null: there are other fields. */
function sentinelAccess(query: URLSearchParams) {
  const fields = ["sentinel_username", "sentinel_password"];
  if ([...query.keys()].some((key) => !fields.includes(key))) return null;
  const [sentinelUsername, sentinelPassword] = fields.map((field) => query.get(field));
  return {
    ...(sentinelUsername && { sentinelUsername }),
    ...(sentinelPassword && { sentinelPassword }),
  };
}
