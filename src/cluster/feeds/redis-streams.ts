import { setImmediate as turn } from "node:timers/promises";
import type { Redis } from "ioredis";
import { messageOf } from "#base";
import { BackOff, pause } from "./back-off.ts";
import { openRedis } from "./redis-client.ts";
import { entryId } from "./redis-entry.ts";

/** Most entries of one stream at a time. */
const ENTRIES_PER_READ = 64;
/** Longest wait for entries: a stream that is added meanwhile waits as long. */
const BLOCK_MS = 100;
/** A reading takes at most this, or the connection is dead. */
const SILENCE_MS = 5000;
const RETRY_MS = [100, 5000] as const;

/** A reader of one stream. */
export interface StreamReader {
  readonly key: string;
  /** It wants the entries behind number `nextId`; moved on by `take`. */
  readonly nextId: number;
  /** Takes entries as they came, perhaps older ones before. Does not throw. */
  take(entries: readonly StreamEntry[]): void;
}

/** As Redis has them: id, and fields with their values. */
export type StreamEntry = readonly [id: Buffer, fields: readonly Buffer[]];

/**
 * One connection that reads the streams of all workers: a router of 128 workers needs no 128
 * connections. While Redis is away readers wait; they find gaps by themselves.
 */
export class RedisStreams {
  readonly #redis: Redis;
  readonly #readers = new Set<StreamReader>();
  readonly #ended = new AbortController();
  readonly #running: Promise<void>;
  #wake: (() => void) | null = null;

  /** `warn` receives a line when Redis goes away, and one when it is back. */
  constructor(url: string, warn: (message: string) => void) {
    this.#redis = openRedis(url, warn);
    this.#running = this.#run(warn);
  }

  /** Whether Redis answers. */
  get isConnected(): boolean {
    return this.#redis.status === "ready";
  }

  add(reader: StreamReader): void {
    this.#readers.add(reader);
    this.#wake?.();
  }

  remove(reader: StreamReader): void {
    this.#readers.delete(reader);
  }

  async close(): Promise<void> {
    this.#ended.abort();
    this.#wake?.();
    this.#redis.disconnect();
    await this.#running;
  }

  async #run(warn: (message: string) => void): Promise<void> {
    const { signal } = this.#ended;
    const backOff = new BackOff(RETRY_MS);
    let said = "";
    while (!signal.aborted) {
      if (this.#readers.size === 0) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      try {
        await this.#read([...this.#readers]);
        backOff.reset();
        said = "";
      } catch (error) {
        const reason = messageOf(error);
        if (this.isConnected && reason !== said && !signal.aborted) {
          said = reason;
          warn(`Cannot read KV events from Redis: ${reason}; trying again`);
        }
        await pause(backOff.next(), signal);
      }
      await turn();
    }
  }

  async #read(readers: readonly StreamReader[]): Promise<void> {
    // Several readers of one stream read it from the one that is furthest behind.
    const places = new Map<string, number>();
    for (const { key, nextId } of readers) {
      places.set(key, Math.min(nextId, places.get(key) ?? nextId));
    }
    const cursors = [...places.values()].map(entryId);
    const options = ["COUNT", ENTRIES_PER_READ, "BLOCK", BLOCK_MS, "STREAMS"] as const;
    const answer = await inTime(
      this.#redis.xreadBuffer(...options, ...places.keys(), ...cursors),
      this.#redis,
    );
    // The answer has only streams with entries.
    for (const [key, entries] of (answer ?? []) as [Buffer, StreamEntry[]][]) {
      for (const reader of readers) {
        // It may have been removed meanwhile.
        if (reader.key === String(key) && this.#readers.has(reader)) reader.take(entries);
      }
    }
  }
}

/** A silent connection is opened anew: a stopped Redis keeps its connections. */
async function inTime<T>(answer: Promise<T>, redis: Redis): Promise<T> {
  const timeout = setTimeout(() => redis.disconnect(true), SILENCE_MS);
  timeout.unref();
  try {
    return await answer;
  } finally {
    clearTimeout(timeout);
  }
}
