/** The plainest index of one worker's changes: what a feed tells, counted by name and level. */
import type { BlockNames, KvChange, KvFeedSink, KvLevel, KvScope } from "#cluster";
import { blockNames } from "../../src/cluster/feeds/block-names.ts";
import type { SnapshotBlock } from "../../src/kvcache/events/kv-event.ts";

interface Known {
  readonly parent: string | null;
  readonly tokens: string;
  /** The scope of the chain's root, as text. */
  readonly scope: string;
  readonly counts: [number, number, number];
}

export class ChangeMirror implements KvFeedSink {
  readonly resets: string[] = [];
  readonly warnings: string[] = [];
  changes = 0;
  /** Runs below a parent of which nothing is known. */
  orphans = 0;
  readonly #known = new Map<string, Known>();

  apply(changes: readonly KvChange[]): void {
    for (const change of changes) this.#apply(change);
    this.changes += changes.length;
  }

  reset(reason: string): void {
    this.resets.push(reason);
    this.#known.clear();
  }

  warn(message: string): void {
    this.warnings.push(message);
  }

  /** Blocks that are on some level. */
  get size(): number {
    let size = 0;
    for (const { counts } of this.#known.values()) if (counts.some((count) => count > 0)) size++;
    return size;
  }

  /** All that is on some level, one line each, in order of the names. */
  lines(): string[] {
    const lines: string[] = [];
    for (const [name, { parent, tokens, scope, counts }] of this.#known) {
      const levels = counts.map((count) => (count > 0 ? "1" : "0")).join("");
      if (levels !== "000") lines.push(`${name} < ${parent} ${scope} [${tokens}] ${levels}`);
    }
    return lines.sort();
  }

  #apply(change: KvChange): void {
    switch (change.type) {
      case "stored":
        this.#store(change);
        break;
      case "removed":
        for (const name of texts(change.names)) this.#remove(name, change.level);
        break;
      case "moved":
        for (const name of texts(change.names)) {
          const counts = this.#known.get(name)?.counts;
          if (counts === undefined) continue;
          if (counts[change.from] > 0) counts[change.from]--;
          counts[change.to]++;
        }
        break;
      case "cleared":
        for (const name of this.#known.keys()) {
          const counts = this.#known.get(name)?.counts;
          if (counts === undefined) continue;
          if (change.level === null) counts.fill(0);
          else counts[change.level] = 0;
        }
    }
  }

  #store({ scope, level, parent, names, tokens }: KvChange & { type: "stored" }): void {
    let before = parent === null ? null : (texts(parent)[0] ?? null);
    const isPlaceholder = tokens.length === 0;
    if (!isPlaceholder && tokens.length * 2 !== names.length * scope.blockTokens) {
      throw new Error("A run has tokens for each of its blocks");
    }
    for (const [place, name] of texts(names).entries()) {
      const start = place * scope.blockTokens;
      const above = before === null ? undefined : this.#known.get(before);
      if (!isPlaceholder && (before === null || above !== undefined)) {
        const known = this.#known.get(name);
        this.#known.set(name, {
          parent: before,
          tokens: tokens.slice(start, start + scope.blockTokens).join(),
          scope: above?.scope ?? scopeText(scope),
          counts: known?.counts ?? [0, 0, 0],
        });
      } else if (!isPlaceholder) this.orphans++;
      const known = this.#known.get(name);
      if (known !== undefined) known.counts[level]++;
      before = name;
    }
  }

  #remove(name: string, level: KvLevel | null): void {
    const counts = this.#known.get(name)?.counts;
    if (counts === undefined) return;
    if (level === null) counts.fill(0);
    else if (counts[level] > 0) counts[level]--;
  }
}

/** What a mirror must have of a cache: its full blocks of text below such blocks. */
export function expectedLines(
  blocks: readonly SnapshotBlock[],
  scope: { readonly model: string; readonly blockTokens: number },
): string[] {
  const scopes = new Map<string, string>();
  const lines: string[] = [];
  for (const block of blocks) {
    const { group = 0, cacheSalt: salt, loraId } = block;
    const isText = block.multimodalKeys.length === 0 && block.extraIds === undefined;
    if (block.tokenIds.length !== scope.blockTokens || !isText) continue;
    const [name = ""] = texts(blockNames([block.hash], group));
    const parent =
      block.parentHash === null ? null : (texts(blockNames([block.parentHash], group))[0] ?? null);
    const lora = loraId === null ? null : String(loraId);
    const text = parent === null ? scopeText({ ...scope, salt, lora, group }) : scopes.get(parent);
    if (text === undefined) continue;
    scopes.set(name, text);
    const levels = [0, 1, 2].map((level) => (level === block.level ? "1" : "0")).join("");
    lines.push(`${name} < ${parent} ${text} [${block.tokenIds.join()}] ${levels}`);
  }
  return lines.sort();
}

function texts(names: BlockNames): string[] {
  const all: string[] = [];
  for (let place = 0; place < names.length; place += 2) {
    const high = (names[place + 1] ?? 0).toString(16).padStart(8, "0");
    all.push(high + (names[place] ?? 0).toString(16).padStart(8, "0"));
  }
  return all;
}

function scopeText({ model, blockTokens, salt, lora, group }: KvScope): string {
  // Of other engines a number stands behind a character that is in no name.
  const adapter = lora?.replace("\u0000", "") ?? null;
  return `${model}/${blockTokens}/${salt}/${adapter}/${group}`;
}
