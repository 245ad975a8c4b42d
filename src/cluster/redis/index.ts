/**
 * cluster/redis: how a Redis is addressed, by its own address or by its sentinels.
 *
 *   redis-address.ts   reads the address, says it without secrets, opens connections to it
 *
 * Invariant: nothing here keeps a connection; who opens one closes it.
 *
 * @module
 */
export { type RedisAddress, type RedisConnection, readRedisAddress } from "./redis-address.ts";
