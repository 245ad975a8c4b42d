/** The events of our own servers as changes. */
import { EngineError } from "#base";
import type { KvChange, KvLevel } from "#cluster/protocol";
import type { KvEvent, KvRun, NumberedKvEvent, SnapshotBlock, StoredBlock } from "#kvcache";
import { blockNames, groupedNames } from "./block-names.ts";
import type { WorkerScope } from "./worker-scope.ts";

/** A block, and what is before it. */
interface PlacedBlock {
  readonly block: StoredBlock;
  readonly parent: bigint | null;
  readonly group: number;
}

/** The changes that an event says; blocks that are not full, or not text alone, are left out. */
export function changesOfEvent(scope: WorkerScope, numbered: NumberedKvEvent): KvChange[] {
  const { event, group = 0 } = numbered;
  switch (event.type) {
    case "created":
      return [];
    case "stored":
      return storedChanges(scope, placed(event, group));
    case "removed":
    case "cleared":
      return event.hashes.length === 0
        ? []
        : [{ type: "removed", names: blockNames(event.hashes, group), level: null }];
    case "updated": {
      if (event.level === null) return [];
      const { oldValue: from, newValue: to } = event.level;
      return [{ type: "moved", names: blockNames([event.hash], group), from, to }];
    }
  }
}

/** The same for a packed run; one of blocks that are not full is left out. */
export function changesOfRun(scope: WorkerScope, run: KvRun): KvChange[] {
  const { group, level, loraId, cacheSalt, parent, hashes, tokens } = run;
  const count = (tokens.length * 2) / hashes.length;
  checkCount(scope, count);
  if (count < scope.blockTokens) return [];
  return [
    {
      type: "stored",
      scope: {
        ...{ model: scope.model, blockTokens: scope.blockTokens, group, salt: cacheSalt },
        lora: loraId === null ? null : String(loraId),
      },
      level,
      parent: parent === null ? null : groupedNames(parent, group),
      names: groupedNames(hashes, group),
      tokens,
    },
  ];
}

/** The changes that lead from an empty cache to a part of a snapshot. */
export function changesOfSnapshot(
  scope: WorkerScope,
  blocks: readonly SnapshotBlock[],
): KvChange[] {
  const all = blocks.map((block) => {
    return { block, parent: block.parentHash, group: block.group ?? 0 };
  });
  return storedChanges(scope, all);
}

function placed(event: KvEvent & { type: "stored" }, group: number): PlacedBlock[] {
  let parent = event.parentHash;
  return event.blocks.map((block) => {
    const each = { block, parent, group };
    parent = block.hash;
    return each;
  });
}

/** One change per run: blocks that continue each other, of one scope and level. */
function storedChanges(scope: WorkerScope, blocks: readonly PlacedBlock[]): KvChange[] {
  const changes: KvChange[] = [];
  let run: PlacedBlock[] = [];
  for (const each of blocks) {
    if (!isFullText(scope, each.block)) continue;
    const last = run.at(-1);
    if (last !== undefined && !continues(last, each)) {
      changes.push(storedRun(scope, run));
      run = [];
    }
    run.push(each);
  }
  if (run.length > 0) changes.push(storedRun(scope, run));
  return changes;
}

function isFullText(scope: WorkerScope, block: StoredBlock): boolean {
  const { tokenIds, multimodalKeys, extraIds } = block;
  const { length } = tokenIds;
  checkCount(scope, length);
  return length === scope.blockTokens && multimodalKeys.length === 0 && extraIds === undefined;
}

function checkCount({ blockTokens }: WorkerScope, count: number): void {
  if (count <= blockTokens) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot read KV events: blocks must have ${blockTokens} tokens, as the worker says, ` +
      `current value is ${count}`,
    { param: "tokens" },
  );
}

function continues(last: PlacedBlock, { block, parent, group }: PlacedBlock): boolean {
  return (
    last.block.hash === parent &&
    last.group === group &&
    last.block.level === block.level &&
    last.block.cacheSalt === block.cacheSalt &&
    last.block.loraId === block.loraId
  );
}

function storedRun(scope: WorkerScope, run: readonly PlacedBlock[]): KvChange {
  const { blockTokens, model } = scope;
  const [first] = run as [PlacedBlock]; // A run has at least one block.
  const { block, parent, group } = first;
  const tokens = new Uint32Array(run.length * blockTokens);
  run.forEach((each, place) => {
    tokens.set(each.block.tokenIds, place * blockTokens);
  });
  return {
    type: "stored",
    scope: {
      model,
      blockTokens,
      salt: block.cacheSalt,
      lora: block.loraId === null ? null : String(block.loraId),
      group,
    },
    level: block.level satisfies KvLevel,
    parent: parent === null ? null : blockNames([parent], group),
    names: blockNames(
      run.map((each) => each.block.hash),
      group,
    ),
    tokens,
  };
}
