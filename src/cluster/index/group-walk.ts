/**
 * Matches of models with several groups of layers. A prefix of n blocks is of use where the groups
 * that see everything have all n, and each group with a window has the last ones of the n, as many
 * as the next token still sees.
 */
import type { GroupBlocks, PrefixMatch, WorkerNumber } from "#cluster/protocol";
import type { BlockNodes } from "./block-nodes.ts";
import { CUMULATIVE } from "./member-sets.ts";
import type { PrefixWalk } from "./prefix-walk.ts";

const LEVELS = [0, 1, 2] as const;

/** A worker, and the most blocks that it may still be found to have, per level. */
interface Runner {
  readonly worker: WorkerNumber;
  readonly most: [number, number, number];
}

export class GroupWalk {
  readonly #nodes: BlockNodes;
  readonly #walk: PrefixWalk;

  constructor(nodes: BlockNodes, walk: PrefixWalk) {
    this.#nodes = nodes;
    this.#walk = walk;
  }

  /** See `PrefixLookup.findGroups`; workers have numbers below `workers`. */
  find(groups: readonly GroupBlocks[], workers: number, now: number): PrefixMatch[] {
    const blocks = Math.min(...groups.map(({ prompt }) => prompt.keys.length >>> 1));
    if (groups.length === 0 || blocks === 0) return [];
    const runners = this.#runnersOf(groups, blocks, workers, now);
    const windowed = groups.filter(({ windowTokens }) => windowTokens !== null);
    if (windowed.length > 0 && runners.length > 0) this.#shorten(runners, windowed, now);
    return runners
      .filter(({ most }) => most[2] > 0)
      .map(({ worker, most }) => ({ worker, levels: most }));
  }

  /** Workers by what they have in the groups that see everything. */
  #runnersOf(
    groups: readonly GroupBlocks[],
    blocks: number,
    workers: number,
    now: number,
  ): Runner[] {
    const seesAll = groups.filter(({ windowTokens }) => windowTokens === null);
    const everyone = Array.from({ length: workers }, (_, worker) => runner(worker, blocks));
    return seesAll.reduce((runners, { prompt }) => {
      const byWorker: Runner[] = [];
      for (const runner of runners) byWorker[runner.worker] = runner;
      const matches = this.#walk.find(prompt.keys.subarray(0, blocks * 2), workers, now);
      return matches.flatMap(({ worker, levels }) => {
        const before = byWorker[worker];
        if (before === undefined) return [];
        for (const level of LEVELS)
          before.most[level] = Math.min(before.most[level], levels[level]);
        return [before];
      });
    }, everyone);
  }

  /** Shortens each runner's prefixes to the longest that all groups with a window agree to. */
  #shorten(runners: readonly Runner[], groups: readonly GroupBlocks[], now: number): void {
    const blocks = Math.max(...runners.map(({ most }) => most[2]));
    // [runner, block]: a bit per level on which a prefix that ends behind the block is of use.
    const fits = new Uint8Array(runners.length * blocks).fill(7);
    for (const group of groups) this.#fit(fits, blocks, runners, group, now);
    runners.forEach(({ most }, place) => {
      for (const level of LEVELS) {
        let count = most[level];
        while (count > 0 && ((fits[place * blocks + count - 1]! >>> level) & 1) === 0) count--;
        most[level] = count;
      }
    });
  }

  #fit(
    fits: Uint8Array,
    blocks: number,
    runners: readonly Runner[],
    { prompt, windowTokens }: GroupBlocks,
    now: number,
  ): void {
    const needed = Math.ceil(((windowTokens ?? 1) - 1) / prompt.scope.blockTokens);
    // [runner, level] how many blocks in a row the runner has, up to the one that is looked at.
    const runs = new Uint32Array(runners.length * 3);
    for (let block = 0; block < blocks; block++) {
      const node = this.#nodes.find(prompt.keys[block * 2]!, prompt.keys[block * 2 + 1]!);
      const set = node < 0 ? 0 : this.#nodes.touch(node, now);
      for (let place = 0; place < runners.length; place++) {
        const worker = runners[place]!.worker;
        const has = set === 0 ? 0 : CUMULATIVE[this.#nodes.members.levelsOf(set, worker)]!;
        for (const level of LEVELS) {
          const run = (has >>> level) & 1 ? runs[place * 3 + level]! + 1 : 0;
          runs[place * 3 + level] = run;
          if (run < Math.min(needed, block + 1)) fits[place * blocks + block]! &= ~(1 << level);
        }
      }
    }
  }
}

function runner(worker: WorkerNumber, blocks: number): Runner {
  return { worker, most: [blocks, blocks, blocks] };
}
