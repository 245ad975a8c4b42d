/** Pools of this thread by name: engines in one thread reach each other's memory as it is. */
import { randomUUID } from "node:crypto";
import { EngineError } from "#base";
import type { PeerPool } from "./device.ts";
import type { KvPool } from "./device-data.ts";

/** Module state is of one thread, and so is this name. */
export const THREAD_SCOPE = `thread ${randomUUID()}`;

const pools = new Map<string, KvPool>();
const names = new WeakMap<KvPool, string>();

/** A pool of this thread that another device's blocks are copied from. */
export class LocalPeerPool implements PeerPool {
  readonly blocks: number;
  readonly bytesPerBlock: number;
  readonly #name: string;

  constructor(name: string, { blocks, bytesPerBlock }: KvPool) {
    this.#name = name;
    this.blocks = blocks;
    this.bytesPerBlock = bytesPerBlock;
  }

  /** Throws DEVICE_UNAVAILABLE once its owner has released it. */
  get pool(): KvPool {
    return poolNamed(this.#name);
  }
}

export function describeLocalPool(pool: KvPool): string {
  const name = names.get(pool) ?? randomUUID();
  names.set(pool, name);
  pools.set(name, pool);
  return name;
}

/** No description opens it any more. */
export function forgetLocalPool(pool: KvPool): void {
  const name = names.get(pool);
  if (name !== undefined) pools.delete(name);
}

/** Throws as `Device.openPeerPool` does. */
export function openLocalPool(name: string, { layout }: KvPool): LocalPeerPool {
  const pool = poolNamed(name);
  if (pool.layout === layout) return new LocalPeerPool(name, pool);
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot reach another engine's pool: its layout must be ${layout}, current value is ` +
      `${pool.layout}; serve the same model with the same settings on both`,
  );
}

function poolNamed(name: string): KvPool {
  const pool = pools.get(name);
  if (pool !== undefined) return pool;
  throw new EngineError(
    "DEVICE_UNAVAILABLE",
    "Cannot reach another engine's pool: it is not in this thread, or was released",
  );
}
