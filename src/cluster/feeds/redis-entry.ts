/**
 * A worker's events in a Redis stream: one entry per batch, numbered by the event after its last
 * (`42-0`: all up to event 41), so that a place in the stream is a place in the worker's events.
 */
import type { KvChange } from "#cluster/protocol";
import { unpackChanges } from "./change-codec.ts";
import { malformed } from "./engine-fields.ts";
import type { WorkerScope } from "./worker-scope.ts";

/** One batch. */
export interface RedisEntry {
  /** The start of the worker's cache that its events belong to. */
  readonly streamId: string;
  readonly firstId: number;
  readonly nextId: number;
  /** Packed changes, a list per event. */
  readonly payload: Buffer;
}

/** Key of a worker's stream; each start of a worker has its own. */
export function streamKey(workerId: string, epoch: string): string {
  return `perigee:kv:${workerId}:${epoch}`;
}

/** The entry's id. */
export function entryId(nextId: number): string {
  return `${nextId}-0`;
}

/** The entry's fields and values. */
export function entryFields({ streamId, firstId, payload }: RedisEntry): (string | Buffer)[] {
  return ["stream", streamId, "first", String(firstId), "changes", payload];
}

/** Reads an entry; throws INVALID_ARGUMENT for one that is none of ours. */
export function readEntry(id: Buffer, fields: readonly Buffer[]): RedisEntry {
  const values = new Map<string, Buffer>();
  for (let place = 0; place + 1 < fields.length && place < 16; place += 2) {
    values.set(String(fields[place]), fields[place + 1] ?? Buffer.alloc(0));
  }
  const payload = values.get("changes");
  const streamId = String(values.get("stream") ?? "");
  const firstId = whole(String(values.get("first")), "first");
  const nextId = whole(/^(\d+)-0$/.exec(String(id))?.[1] ?? "", "id");
  if (payload === undefined || nextId <= firstId || !/^\w{1,64}$/.test(streamId)) {
    throw malformed("entry", "stream, first and changes", String(id));
  }
  return { streamId, firstId, nextId, payload };
}

/** The changes of an entry from event `fromId` on. Throws INVALID_ARGUMENT for other contents. */
export function changesFrom(scope: WorkerScope, entry: RedisEntry, fromId: number): KvChange[] {
  const events = unpackChanges(scope, entry.payload);
  if (events.length !== entry.nextId - entry.firstId) {
    throw malformed("changes", `those of ${entry.nextId - entry.firstId} events`, events.length);
  }
  return events.slice(Math.max(0, fromId - entry.firstId)).flat();
}

function whole(text: string, name: string): number {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(value)) return value;
  throw malformed(name, "a whole number", text);
}
