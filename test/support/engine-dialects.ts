/** Our events as engines publish them: lists, maps, hashes of other kinds (V 2.2, 2.3). */
import type { VllmBlockStored, VllmEvent } from "../../src/kvcache/events/vllm-event-encoder.ts";

export type Dialect =
  | "vllm maps"
  | "vllm lists"
  | "vllm lists of 0.10"
  | "vllm bytes"
  | "sglang lists"
  | "sglang maps";

const SGLANG_MEDIUMS = { GPU: "GPU", CPU: "CPU_PINNED", STORAGE: "DISK" } as const;

/** What the dialect sends for an event. */
export function inDialect(dialect: Dialect, event: VllmEvent): unknown {
  switch (dialect) {
    case "vllm maps":
      return event;
    case "vllm bytes":
      return withHashes(event, digest);
    case "vllm lists":
      return asList(event, 12);
    case "vllm lists of 0.10":
      return asList(event, 6);
    case "sglang lists":
      return sglangList(withHashes(event, signed));
    case "sglang maps":
      return sglangMap(withHashes(event, signed));
  }
}

/** The whole digest, of which vLLM's numbers are the end. */
function digest(hash: bigint): Uint8Array {
  const bytes = Buffer.alloc(32, 0xab);
  bytes.writeBigUInt64BE(hash, 24);
  return bytes;
}

const signed = (hash: bigint) => BigInt.asIntN(64, hash);

function withHashes(event: VllmEvent, map: (hash: bigint) => unknown): Record<string, unknown> {
  if (event.type === "AllBlocksCleared") return { ...event };
  const hashes = { ...event, block_hashes: event.block_hashes.map(map) };
  if (event.type === "BlockRemoved") return hashes;
  const parent = event.parent_block_hash;
  return { ...hashes, parent_block_hash: parent === null ? null : map(parent) };
}

function asList(event: VllmEvent, fields: number): unknown[] {
  switch (event.type) {
    case "AllBlocksCleared":
      return [event.type];
    case "BlockRemoved":
      return [event.type, event.block_hashes, event.medium, event.group_idx].slice(0, fields);
    case "BlockStored":
      return [
        event.type,
        event.block_hashes,
        event.parent_block_hash,
        event.token_ids,
        event.block_size,
        event.lora_id,
        event.medium,
        event.lora_name,
        event.extra_keys,
        event.group_idx,
        event.kv_cache_spec_kind,
      ].slice(0, fields + 1);
  }
}

function sglangMap(event: Record<string, unknown>): Record<string, unknown> {
  const medium = SGLANG_MEDIUMS[event.medium as keyof typeof SGLANG_MEDIUMS];
  if (event.type !== "BlockStored") {
    const { type, block_hashes } = event;
    return type === "BlockRemoved" ? { type, block_hashes, medium } : { type };
  }
  const { block_hashes, parent_block_hash, token_ids, block_size } = event;
  const cache_salt = saltOf(event.extra_keys as VllmBlockStored["extra_keys"]);
  const salt = cache_salt === null ? {} : { cache_salt };
  return {
    ...{ type: "BlockStored", block_hashes, parent_block_hash, token_ids, block_size },
    ...{ lora_id: null, medium, ...salt },
  };
}

function sglangList(event: Record<string, unknown>): unknown[] {
  const fields = sglangMap(event);
  if (event.type !== "BlockStored") {
    return [fields.type, fields.block_hashes, fields.medium].slice(
      0,
      event.type === "BlockRemoved" ? 3 : 1,
    );
  }
  const { cache_salt } = fields;
  return [
    ...[fields.type, fields.block_hashes, fields.parent_block_hash, fields.token_ids],
    ...[fields.block_size, null, fields.medium],
    ...(cache_salt === undefined ? [] : [{ cache_salt }]),
  ];
}

function saltOf(keys: VllmBlockStored["extra_keys"]): string | null {
  const salt = keys[0]?.find((key) => typeof key === "string");
  return typeof salt === "string" ? salt : null;
}
