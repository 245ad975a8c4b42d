/** Connections to Redis for event streams: they come back by themselves, and say so once. */
import type { Redis } from "ioredis";
import { messageOf } from "#base";
import { readRedisAddress } from "#cluster/redis";

const CONNECT_MS = 2000;
const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 5000;
/** An answer takes at most this, or the connection is dead. */
const SILENCE_MS = 5000;

/**
 * Opens a connection, to an address as `readRedisAddress` reads it. `warn` receives one line when
 * Redis goes away, and one when it is back; never the password. Commands fail at once while it is
 * away. Throws INVALID_ARGUMENT for another text.
 */
export function openRedis(url: string, warn: (message: string) => void): Redis {
  const { place, open, isNoTrouble } = readRedisAddress(url);
  const client = open({
    connectTimeout: CONNECT_MS,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (times) => Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** Math.min(times, 10)),
  });
  let isAway = false;
  const away = (reason: string) => {
    if (!isAway) warn(`Cannot reach Redis at ${place}: ${reason}; trying again`);
    isAway = true;
  };
  client.on("error", (error) => {
    if (!isNoTrouble(messageOf(error))) away(messageOf(error));
  });
  client.on("close", () => {
    if (client.status !== "end") away("the connection was closed");
  });
  client.on("ready", () => {
    if (isAway) warn(`Redis at ${place} answers again`);
    isAway = false;
  });
  return client;
}

/** The answer; a silent connection is opened anew: a stopped Redis keeps its connections. */
export async function inTime<T>(answer: Promise<T>, redis: Redis): Promise<T> {
  const timeout = setTimeout(() => redis.disconnect(true), SILENCE_MS);
  timeout.unref();
  try {
    return await answer;
  } finally {
    clearTimeout(timeout);
  }
}
