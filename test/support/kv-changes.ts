/** Workers that announce random changes of small worlds of prompts, and what they are made from. */
import { seedFrom, uniformAt } from "#base";
import type { BlockNames, KvChange, KvLevel, KvScope } from "#cluster/protocol";

/** A scope with blocks of 4 tokens. */
export function scopeOf(over: Partial<KvScope> = {}): KvScope {
  return { model: "m", blockTokens: 4, salt: null, lora: null, group: 0, ...over };
}

/** Names of `count` blocks, from number `first` on. */
export function namesFrom(first: number, count: number): BlockNames {
  return Uint32Array.from({ length: count * 2 }, (_, at) => (at % 2 === 0 ? first + at / 2 : 1));
}

/** Names from small numbers. */
export function names(...numbers: number[]): BlockNames {
  return Uint32Array.from(numbers.flatMap((number) => [number, 1]));
}

/** A sequence of chances; the same for the same seed. */
export class Chances {
  readonly #seed: ReturnType<typeof seedFrom>;
  #position = 0;

  constructor(seed: number) {
    this.#seed = seedFrom(seed);
  }

  /** A whole number below `limit`. */
  below(limit: number): number {
    return Math.floor(uniformAt(this.#seed, this.#position++) * limit);
  }

  /** One of these. */
  of<Item>(items: readonly Item[]): Item {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error("Nothing to choose from");
    return item;
  }
}

/** Prompts whose beginnings are shared: each token of a block is decided by its family and place. */
export function familyPrompt(chances: Chances, blocks: number, blockTokens = 4): Uint32Array {
  const tokens = new Uint32Array(blocks * blockTokens);
  let family = 0;
  for (let block = 0; block < blocks; block++) {
    // Prompts part at some blocks only.
    if (block % 3 === 0) family = family * 3 + chances.below(3);
    for (let at = 0; at < blockTokens; at++) tokens[block * blockTokens + at] = family * 7 + at;
  }
  return tokens;
}

/** A worker that makes changes: its names are its own, and it forgets nothing that it named. */
export class RandomWorker {
  readonly #chances: Chances;
  readonly #scopes: readonly KvScope[];
  /** Of contents, as text; equal contents have one name, now and then two. */
  readonly #nameOf = new Map<string, number>();
  readonly #salt: number;

  constructor(chances: Chances, scopes: readonly KvScope[], salt: number) {
    this.#chances = chances;
    this.#scopes = scopes;
    this.#salt = salt;
  }

  /** A change: mostly sound, now and then of what was never there. */
  change(): KvChange {
    const chances = this.#chances;
    const kind = chances.below(100);
    if (kind < 50) return this.#stored();
    const some = this.#someNames(1 + chances.below(5));
    const level = chances.below(3) as KvLevel;
    if (kind < 75) {
      return { type: "removed", names: some, level: chances.below(4) === 0 ? null : level };
    }
    if (kind < 90)
      return { type: "moved", names: some, from: level, to: chances.below(3) as KvLevel };
    if (kind < 99 || chances.below(4) > 0) {
      const scope = chances.of(this.#scopes);
      return {
        type: "stored",
        ...{ scope, level, parent: null, names: some, tokens: new Uint32Array() },
      };
    }
    return { type: "cleared", level: chances.below(2) === 0 ? null : level };
  }

  #stored(): KvChange {
    const chances = this.#chances;
    const scope = chances.of(this.#scopes);
    const tokens = familyPrompt(chances, 1 + chances.below(9), scope.blockTokens);
    const blocks = tokens.length / scope.blockTokens;
    const from = chances.below(blocks);
    const all = Array.from({ length: blocks }, (_, block) =>
      this.#name(scope, tokens.subarray(0, (block + 1) * scope.blockTokens)),
    );
    const before = all[from - 1];
    return {
      type: "stored",
      scope,
      level: chances.below(3) as KvLevel,
      parent: before === undefined ? null : this.#names([before]),
      names: this.#names(all.slice(from)),
      tokens: tokens.slice(from * scope.blockTokens),
    };
  }

  #name(scope: KvScope, tokens: Uint32Array): number {
    const second = this.#chances.below(12) === 0 ? "second" : "";
    const key = `${JSON.stringify(scope)}${second}${tokens.join()}`;
    const name = this.#nameOf.get(key) ?? this.#nameOf.size;
    this.#nameOf.set(key, name);
    return name;
  }

  #someNames(count: number): BlockNames {
    const known = this.#nameOf.size + 2;
    return this.#names(Array.from({ length: count }, () => this.#chances.below(known)));
  }

  #names(numbers: readonly number[]): BlockNames {
    return Uint32Array.from(numbers.flatMap((number) => [number, this.#salt]));
  }
}
