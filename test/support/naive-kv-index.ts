/** What the index is meant to say, in the plainest way: Maps of names and of tokens as text. */
import type { BlockNames, KvChange, KvScope, PrefixMatch, WorkerNumber } from "#cluster/protocol";

interface Holding {
  readonly contents: string;
  readonly references: [number, number, number];
}

type Stored = Extract<KvChange, { readonly type: "stored" }>;

/** One worker's blocks by its names. */
class NaiveWorker {
  readonly holdings = new Map<string, Holding>();
  ignoredRemovals = 0;
  unknownParents = 0;
  placeholders = 0;

  apply(change: KvChange): void {
    switch (change.type) {
      case "stored":
        this.#store(change);
        break;
      case "removed":
        for (const name of namesOf(change.names)) this.#remove(name, change.level);
        break;
      case "moved":
        for (const name of namesOf(change.names)) {
          const holding = this.holdings.get(name);
          if (holding !== undefined) holding.references[change.to]++;
          this.#remove(name, change.from);
        }
        break;
      case "cleared":
        for (const [name, { references }] of this.holdings) {
          if (change.level === null) references.fill(0);
          else references[change.level] = 0;
          this.#forgetIfGone(name);
        }
        break;
    }
  }

  /** A bit per level on which some name of these contents is. */
  levelsOf(contents: string): number {
    let levels = 0;
    for (const holding of this.holdings.values()) {
      if (holding.contents !== contents) continue;
      holding.references.forEach((count, level) => {
        if (count > 0) levels |= 1 << level;
      });
    }
    return levels;
  }

  #store({ scope, parent, names, tokens, level }: Stored): void {
    const all = namesOf(names);
    if (tokens.length === 0) {
      for (const name of all) {
        const holding = this.holdings.get(name);
        if (holding === undefined) this.placeholders++;
        else holding.references[level]++;
      }
      return;
    }
    let before = rootOf(scope);
    if (parent !== null) {
      const holding = this.holdings.get(namesOf(parent)[0] ?? "");
      if (holding === undefined) {
        this.unknownParents += all.length;
        return;
      }
      before = holding.contents;
    }
    all.forEach((name, block) => {
      const { blockTokens } = scope;
      before += `|${tokens.slice(block * blockTokens, (block + 1) * blockTokens).join()}`;
      const known = this.holdings.get(name);
      if (known?.contents === before) known.references[level]++;
      else {
        const references: [number, number, number] = [0, 0, 0];
        references[level] = 1;
        this.holdings.set(name, { contents: before, references });
      }
    });
  }

  #remove(name: string, level: number | null): void {
    const holding = this.holdings.get(name);
    if (holding === undefined || (level !== null && holding.references[level] === 0)) {
      this.ignoredRemovals++;
      return;
    }
    if (level === null) holding.references.fill(0);
    else holding.references[level as 0 | 1 | 2]--;
    this.#forgetIfGone(name);
  }

  #forgetIfGone(name: string): void {
    if (this.holdings.get(name)?.references.every((count) => count === 0)) {
      this.holdings.delete(name);
    }
  }
}

/** All workers. */
export class NaiveKvIndex {
  readonly workers = new Map<WorkerNumber, NaiveWorker>();

  reset(worker: WorkerNumber): void {
    this.workers.set(worker, new NaiveWorker());
  }

  apply(worker: WorkerNumber, changes: readonly KvChange[]): void {
    for (const change of changes) this.workers.get(worker)?.apply(change);
  }

  /** Matches in the order of the workers' numbers. */
  find(scope: KvScope, tokens: Uint32Array): PrefixMatch[] {
    const matches: PrefixMatch[] = [];
    const blocks = contentsOf(scope, tokens);
    for (const [worker, naive] of this.workers) {
      const held = blocks.map((contents) => naive.levelsOf(contents));
      const levels = [1, 3, 7].map((mask) => leading(held, mask)) as [number, number, number];
      if (levels[2] > 0) matches.push({ worker, levels });
    }
    return matches.sort((a, b) => a.worker - b.worker);
  }

  get memberships(): number {
    return [...this.workers.values()].reduce((sum, { holdings }) => sum + holdings.size, 0);
  }
}

/** The contents of each full block of a prompt, with all before it. */
export function contentsOf(scope: KvScope, tokens: Uint32Array): string[] {
  const { blockTokens } = scope;
  let before = rootOf(scope);
  return Array.from({ length: Math.floor(tokens.length / blockTokens) }, (_, block) => {
    before += `|${tokens.slice(block * blockTokens, (block + 1) * blockTokens).join()}`;
    return before;
  });
}

function leading(held: readonly number[], mask: number): number {
  const end = held.findIndex((levels) => (levels & mask) === 0);
  return end < 0 ? held.length : end;
}

function rootOf({ model, blockTokens, salt, lora, group }: KvScope): string {
  return JSON.stringify([model, blockTokens, salt, lora, group]);
}

function namesOf(names: BlockNames): string[] {
  return Array.from(
    { length: names.length / 2 },
    (_, at) => `${names[2 * at + 1]}:${names[2 * at]}`,
  );
}
