import { setImmediate as turn } from "node:timers/promises";
import type { Redis } from "ioredis";
import { messageOf } from "#base";
import { BackOff, pause } from "./back-off.ts";
import { PacedWarnings } from "./paced-warnings.ts";
import { inTime, openRedis } from "./redis-client.ts";
import { entryId } from "./redis-entry.ts";

/** Most entries of one stream at a time. */
const ENTRIES_PER_READ = 64;
/** Longest wait for entries: a stream that is added meanwhile waits as long. */
const BLOCK_MS = 100;
const RETRY_MS = [100, 5000] as const;
/** Workers are asked themselves when Redis has not answered for so long. */
const AWAY_MS = 3000;
/** How often keys that hold something else are looked at again. */
const FOREIGN_MS = 10_000;

/** A reader of one stream. */
export interface StreamReader {
  readonly key: string;
  /** It wants the entries behind number `nextId`; moved on by `take`. */
  readonly nextId: number;
  /** Takes entries as they came, perhaps older ones before. Does not throw. */
  take(entries: readonly StreamEntry[]): void;
  /** Told once when the stream cannot be read for a while, and once when it is read again. */
  reachable(isReachable: boolean): void;
}

/** As Redis has them: id, and fields with their values. */
export type StreamEntry = readonly [id: Buffer, fields: readonly Buffer[]];

/**
 * One connection that reads the streams of all workers: a router of 128 workers needs no 128
 * connections. While Redis is away its readers are told, and find gaps by themselves.
 */
export class RedisStreams {
  readonly #redis: Redis;
  readonly #warnings: PacedWarnings;
  readonly #awayMs: number;
  readonly #readers = new Set<StreamReader>();
  /** Readers that were told that their stream cannot be read. */
  readonly #away = new Set<StreamReader>();
  readonly #ended = new AbortController();
  readonly #running: Promise<void>;
  #wake: (() => void) | null = null;
  #answeredMs = performance.now();
  /** Keys that hold no stream: one of them fails a reading of all. */
  #foreign: ReadonlySet<string> = new Set();
  #foreignSinceMs = 0;

  /**
   * `warn` receives a line when Redis goes away, and one when it is back, unless `connectionWarn`
   * does. Readers are told after `awayMs`, default 3 s.
   */
  constructor(
    url: string,
    warn: (message: string) => void,
    { awayMs = AWAY_MS, connectionWarn = warn } = {},
  ) {
    this.#redis = openRedis(url, connectionWarn);
    this.#warnings = new PacedWarnings(warn);
    this.#awayMs = awayMs;
    this.#running = this.#run();
  }

  /** Whether Redis answers. */
  get isConnected(): boolean {
    return this.#redis.status === "ready";
  }

  add(reader: StreamReader): void {
    if (this.#readers.size === 0) this.#answeredMs = performance.now();
    this.#readers.add(reader);
    this.#wake?.();
  }

  /** Adds a reader that knows that its stream cannot be read: it is told of the end of that. */
  addAway(reader: StreamReader): void {
    this.#away.add(reader);
    this.add(reader);
  }

  remove(reader: StreamReader): void {
    this.#readers.delete(reader);
    this.#away.delete(reader);
  }

  async close(): Promise<void> {
    this.#ended.abort();
    this.#wake?.();
    this.#redis.disconnect();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#ended;
    const backOff = new BackOff(RETRY_MS);
    while (!signal.aborted) {
      if (this.#readers.size === 0) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      try {
        await this.#read();
        backOff.reset();
      } catch (error) {
        if (signal.aborted) return;
        await this.#failed(messageOf(error));
        await pause(backOff.next(), signal);
      }
      await turn();
    }
  }

  async #failed(reason: string): Promise<void> {
    if (this.isConnected) {
      this.#warnings.warn("read", `Cannot read KV events from Redis: ${reason}; trying again`);
      if (/WRONGTYPE/.test(reason)) await this.#findForeign();
    }
    if (performance.now() - this.#answeredMs < this.#awayMs) return;
    if (this.#away.size < this.#readers.size) {
      this.#warnings.warn("away", "Redis is away: KV events are read from the workers");
    }
    for (const reader of [...this.#readers]) this.#tell(reader, false);
  }

  #tell(reader: StreamReader, isReachable: boolean): void {
    if (this.#away.has(reader) !== isReachable) return;
    if (isReachable) this.#away.delete(reader);
    else this.#away.add(reader);
    reader.reachable(isReachable);
  }

  async #read(): Promise<void> {
    const nowMs = performance.now();
    if (nowMs - this.#foreignSinceMs > FOREIGN_MS) this.#foreign = new Set();
    const all = [...this.#readers];
    const readers = all.filter(({ key }) => !this.#foreign.has(key));
    if (readers.length === 0) return await pause(BLOCK_MS, this.#ended.signal);
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
    this.#answeredMs = performance.now();
    this.#warnings.forget("away");
    for (const reader of readers) this.#tell(reader, true);
    // The answer has only streams with entries.
    for (const [key, entries] of (answer ?? []) as [Buffer, StreamEntry[]][]) {
      for (const reader of readers) {
        // It may have been removed meanwhile.
        if (reader.key === String(key) && this.#readers.has(reader)) reader.take(entries);
      }
    }
  }

  /** Readers of keys that hold something else have no stream in Redis. */
  async #findForeign(): Promise<void> {
    try {
      const keys = [...new Set([...this.#readers].map(({ key }) => key))];
      const types = await inTime(
        Promise.all(keys.map((key) => this.#redis.type(key))),
        this.#redis,
      );
      this.#foreign = new Set(keys.filter((_, at) => !/^(stream|none)$/.test(types[at] ?? "")));
      this.#foreignSinceMs = performance.now();
      for (const reader of [...this.#readers]) {
        if (this.#foreign.has(reader.key)) this.#tell(reader, false);
      }
    } catch {
      // Redis is away again: its connection says so.
    }
  }
}
