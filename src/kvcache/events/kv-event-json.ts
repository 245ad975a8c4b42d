/**
 * Events in the JSON of TensorRT-LLM's servers (T 2.1). Built by hand, since JSON.stringify cannot
 * write 64-bit integers such as block hashes.
 */
import type { KvEventDiff, MultimodalKey } from "#kvcache/contents";
import type {
  KvEvent,
  KvSnapshot,
  NumberedKvEvent,
  SnapshotBlock,
  StoredBlock,
} from "./kv-event.ts";

/**
 * A list of events as one JSON array. `windowSizes`: by group of layers, most positions that a
 * layer sees.
 */
export function kvEventsJson(
  events: readonly NumberedKvEvent[],
  windowSizes: readonly number[],
): string {
  return `[${events.map((event) => kvEventJson(event, windowSizes)).join(",")}]`;
}

/** How tokens are written: each an object, as TensorRT-LLM does, or a list of ids. */
export type TokenForm = "objects" | "plain";

/**
 * One event. `cleared`, which TensorRT-LLM does not have, is written as a `removed` of all its
 * hashes. Adapters, which TensorRT-LLM does not write either, are in `lora_id` where there is one.
 * `layer_group_id` is there where layers are in several groups.
 */
export function kvEventJson(
  { id, event, group = 0 }: NumberedKvEvent,
  windowSizes: readonly number[],
  tokens: TokenForm = "objects",
): string {
  const layers = windowSizes.length > 1 ? `,"layer_group_id":${group}` : "";
  const windowSize = windowSizes[group] ?? 0;
  const data = dataJson(event, tokens);
  return `{"event_id":${id},"data":${data},"window_size":${windowSize}${layers}}`;
}

/**
 * A snapshot, or a part of one: its blocks from number `start` up to `end`. The format is this
 * engine's own, with the names of events. Tokens are plain ids here, since a snapshot can be long.
 */
export function kvSnapshotJson(snapshot: KvSnapshot, start = 0, end?: number): string {
  const blocks = snapshot.blocks.slice(start, end).map(snapshotBlockJson).join(",");
  const isLast = end === undefined || end >= snapshot.blocks.length;
  return (
    `{"type":"snapshot","next_event_id":${snapshot.nextId},` +
    `"num_blocks_per_cache_level":${JSON.stringify(snapshot.blocksPerLevel)},` +
    `"first":${start === 0},"last":${isLast},"blocks":[${blocks}]}`
  );
}

function dataJson(event: KvEvent, tokens: TokenForm): string {
  switch (event.type) {
    case "created": {
      const counts = JSON.stringify(event.blocksPerLevel);
      return `{"type":"created","num_blocks_per_cache_level":${counts}}`;
    }
    case "stored": {
      const block = tokens === "plain" ? plainBlockJson : storedBlockJson;
      const blocks = event.blocks.map(block).join(",");
      return `{"type":"stored","parent_hash":${event.parentHash},"blocks":[${blocks}]}`;
    }
    case "removed":
    case "cleared":
      return `{"type":"removed","block_hashes":[${event.hashes.join(",")}]}`;
    case "updated":
      return (
        `{"type":"updated","block_hash":${event.hash},` +
        `"cache_level":${diffJson(event.level)},"priority":${diffJson(event.priority)}}`
      );
  }
}

function storedBlockJson(block: StoredBlock): string {
  const { extraIds } = block;
  const tokens = block.tokenIds.map(
    (token, place) =>
      `{"type":"unique_token","token_id":${token},"token_extra_id":${extraIds?.[place] ?? 0}}`,
  );
  return (
    `{"type":"stored_block","block_hash":${block.hash},"tokens":[${tokens.join(",")}],` +
    `${placeJson(block)}}`
  );
}

/** As in snapshots: a fifth of the bytes. */
function plainBlockJson(block: StoredBlock): string {
  return `{"block_hash":${block.hash},${plainTokensJson(block)}${placeJson(block)}}`;
}

function snapshotBlockJson(block: SnapshotBlock): string {
  return (
    `{"block_hash":${block.hash},"parent_hash":${block.parentHash},` +
    `${plainTokensJson(block)}${placeJson(block)}` +
    `${block.group === undefined ? "" : `,"layer_group_id":${block.group}`}}`
  );
}

function plainTokensJson({ tokenIds, extraIds }: StoredBlock): string {
  const extras = extraIds === undefined ? "" : `"token_extra_ids":${JSON.stringify(extraIds)},`;
  return `"token_ids":${JSON.stringify(tokenIds)},${extras}`;
}

/** The fields of a block that events and snapshots share. */
function placeJson({ level, priority, multimodalKeys, loraId, cacheSalt }: StoredBlock): string {
  const lora = loraId === null ? "" : `"lora_id":${loraId},`;
  return (
    `"cache_level":${level},"priority":${priority},` +
    `"mm_keys":[${multimodalKeys.map(multimodalJson).join(",")}],${lora}` +
    `"cache_salt":${JSON.stringify(cacheSalt)}`
  );
}

function multimodalJson({ hash, startOffset }: MultimodalKey): string {
  return `{"type":"mm_key","hash":${JSON.stringify(hash)},"start_offset":${startOffset}}`;
}

/** An update may lack either difference, or both. */
function diffJson(diff: KvEventDiff | null): string {
  if (diff === null) return "null";
  return `{"type":"event_diff","new_value":${diff.newValue},"old_value":${diff.oldValue}}`;
}
