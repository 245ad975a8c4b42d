/** A cache's events as the index of a fleet reads them. */
import type { KvChange, KvScope } from "#cluster";
import type { KvEvent, NumberedKvEvent, StoredBlock } from "#kvcache";

const LOW_WORD = 0xffffffffn;

/** What a worker's blocks have in common. */
export type ScopeBase = Pick<KvScope, "model" | "blockTokens">;

/**
 * Events in order as changes. Partly filled blocks are left out, as every index of whole blocks
 * does: what is said of them later names nothing that is known.
 */
export function kvChangesOf(base: ScopeBase, events: readonly NumberedKvEvent[]): KvChange[] {
  return events.flatMap(({ event, group = 0 }) => changesOf(base, event, group));
}

function changesOf(base: ScopeBase, event: KvEvent, group: number): KvChange[] {
  switch (event.type) {
    case "created":
      return [];
    case "stored":
      return storedRuns(base, event, group);
    case "removed":
      return [{ type: "removed", names: namesOf(event.hashes), level: null }];
    case "updated": {
      const { level } = event;
      if (level === null) return [];
      const { oldValue: from, newValue: to } = level;
      return [{ type: "moved", names: namesOf([event.hash]), from, to }];
    }
    case "cleared":
      return [{ type: "cleared", level: null }];
  }
}

/** Full blocks of one run: all of one scope, but maybe of several levels. */
function storedRuns(
  base: ScopeBase,
  { parentHash, blocks }: Extract<KvEvent, { type: "stored" }>,
  group: number,
): KvChange[] {
  const full = blocks.filter(({ tokenIds }) => tokenIds.length === base.blockTokens);
  const changes: KvChange[] = [];
  for (let start = 0; start < full.length; ) {
    const first = full[start];
    if (first === undefined) break;
    let end = start + 1;
    while (full[end]?.level === first.level) end++;
    const before = start === 0 ? parentHash : (full[start - 1]?.hash ?? null);
    const run = full.slice(start, end);
    changes.push({
      type: "stored",
      scope: scopeOf(base, first, group),
      level: first.level,
      parent: before === null ? null : namesOf([before]),
      names: namesOf(run.map(({ hash }) => hash)),
      tokens: tokensOf(run, base.blockTokens),
    });
    start = end;
  }
  return changes;
}

function scopeOf(base: ScopeBase, block: StoredBlock, group: number): KvScope {
  const { loraId, cacheSalt: salt } = block;
  const { model, blockTokens } = base;
  // Written out: a spread costs a look-up per field, and there is one for each run of blocks.
  return { model, blockTokens, salt, lora: loraId === null ? null : String(loraId), group };
}

function tokensOf(blocks: readonly StoredBlock[], blockTokens: number): Uint32Array {
  const tokens = new Uint32Array(blocks.length * blockTokens);
  blocks.forEach(({ tokenIds }, place) => {
    tokens.set(tokenIds, place * blockTokens);
  });
  return tokens;
}

function namesOf(hashes: readonly bigint[]): Uint32Array {
  const names = new Uint32Array(2 * hashes.length);
  hashes.forEach((hash, place) => {
    names[2 * place] = Number(hash & LOW_WORD);
    names[2 * place + 1] = Number(hash >> 32n);
  });
  return names;
}
