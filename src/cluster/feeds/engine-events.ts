/**
 * Batches of events of vLLM 0.8 to 0.26 and SGLang 0.4 to 0.5 as changes: events as lists (vLLM up
 * to 0.23, SGLang up to 0.5.18) and as maps, hashes as 64-bit numbers of either sign and as bytes
 * (V 2.2, 2.3). Other fields are passed over.
 */
import { decode } from "@msgpack/msgpack";
import { EngineError, messageOf } from "#base";
import type { KvChange } from "#cluster/protocol";
import { blockNames } from "./block-names.ts";
import {
  type EventFields,
  eventFields,
  hashList,
  levelOf,
  number,
  tokenIds,
} from "./engine-fields.ts";
import { blockKeys, isText } from "./extra-keys.ts";
import { isBounded } from "./msgpack-bounds.ts";
import type { WorkerScope } from "./worker-scope.ts";

/** Most events of a batch: a step of an engine has some thousands at most. */
const EVENTS_MAX = 2 ** 17;

/** What a batch says. */
export interface EngineBatch {
  readonly changes: readonly KvChange[];
  /** Why events were left out, one line each. */
  readonly refused: readonly string[];
}

/** Data-parallel ranks beyond it are refused; their blocks have names of their own. */
const RANK_MAX = 2 ** 16;
/** Groups of layers of one rank. */
const GROUPS = 256;

/** Reads one batch. Throws INVALID_ARGUMENT for bytes that are none. */
export function readEngineBatch(scope: WorkerScope, payload: Uint8Array): EngineBatch {
  const [, events, rank] = batchOf(payload);
  const changes: KvChange[] = [];
  const refused: string[] = [];
  for (const event of events) {
    try {
      changes.push(...changesOf(scope, eventFields(event), rank));
    } catch (error) {
      refused.push(messageOf(error));
    }
  }
  return { changes, refused };
}

function batchOf(payload: Uint8Array): readonly [unknown, readonly unknown[], number] {
  const batch = isBounded(payload) ? decoded(payload) : null;
  const [seconds, events, rank] = Array.isArray(batch) ? batch : [];
  if (!Array.isArray(events) || events.length > EVENTS_MAX) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot read KV events: a batch must be msgpack of [seconds, events, rank], with at most " +
        `${EVENTS_MAX} events; it is ${payload.length} other bytes`,
    );
  }
  const known = rank === null || rank === undefined ? 0 : number(rank, "rank", RANK_MAX);
  return [seconds, events, known];
}

function decoded(payload: Uint8Array): unknown {
  try {
    return decode(payload, { useBigInt64: true });
  } catch {
    return null;
  }
}

function changesOf(scope: WorkerScope, fields: EventFields, rank: number): KvChange[] {
  const group = number(fields.group_idx ?? 0, "group_idx", GROUPS - 1);
  const names = (hashes: readonly bigint[]) => blockNames(hashes, rank * GROUPS + group);
  switch (fields.type) {
    case "BlockStored":
      return storedChanges(scope, fields, { group, names });
    case "BlockRemoved": {
      const hashes = hashList(fields.block_hashes);
      const level = levelOf(fields.medium, fields.locality);
      return hashes.length === 0 ? [] : [{ type: "removed", names: names(hashes), level }];
    }
    case "AllBlocksCleared":
      return [{ type: "cleared", level: null }];
    default:
      // A type of a later version.
      return [];
  }
}

interface Naming {
  readonly group: number;
  readonly names: (hashes: readonly bigint[]) => Uint32Array;
}

function storedChanges(worker: WorkerScope, fields: EventFields, naming: Naming): KvChange[] {
  const hashes = hashList(fields.block_hashes);
  if (hashes.length === 0) return [];
  const tokens = tokenIds(fields.token_ids);
  const level = levelOf(fields.medium, fields.locality);
  const { group, names } = naming;
  if (tokens.length === 0) {
    const scope = { ...worker, salt: null, lora: null, group };
    return [{ type: "stored", scope, level, parent: null, names: names(hashes), tokens }];
  }
  const blockTokens = blockSize(worker, fields, {
    group,
    hashes: hashes.length,
    tokens: tokens.length,
  });
  const [parentHash = null] =
    fields.parent_block_hash == null ? [] : hashList([fields.parent_block_hash]);
  const keys = blockKeys(fields, hashes.length, parentHash === null);
  const scope = { model: worker.model, blockTokens, salt: keys.salt, lora: keys.lora, group };
  const changes: KvChange[] = [];
  for (let start = 0; start < hashes.length; start++) {
    let end = start;
    while (end < hashes.length && isText(keys, end)) end++;
    if (end === start) continue;
    const before = start === 0 ? parentHash : (hashes[start - 1] ?? null);
    changes.push({
      type: "stored",
      scope,
      level,
      parent: before === null ? null : names([before]),
      names: names(hashes.slice(start, end)),
      tokens: tokens.slice(start * blockTokens, end * blockTokens),
    });
    start = end;
  }
  return changes;
}

/** The first group has blocks of the worker's size; those of others may be larger or smaller. */
function blockSize(
  worker: WorkerScope,
  fields: EventFields,
  run: { readonly group: number; readonly hashes: number; readonly tokens: number },
): number {
  const size = number(fields.block_size, "block_size", 2 ** 20);
  if (size === 0 || run.tokens !== size * run.hashes) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot read KV events: token_ids must be block_size for each of ${run.hashes} hashes, ` +
        `current value is ${run.tokens} at a block_size of ${size}`,
    );
  }
  if (run.group === 0 && size !== worker.blockTokens) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot read KV events: blocks must have ${worker.blockTokens} tokens, as the worker says, ` +
        `current value is ${size}`,
    );
  }
  return size;
}
