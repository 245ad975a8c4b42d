/** What every answer to "who has how much of this prompt" promises. */
import { describe, expect, test } from "vitest";
import type {
  GroupBlocks,
  KvScope,
  PrefixMatch,
  PromptBlocks,
  WorkerNumber,
} from "#cluster/protocol";
import { Chances, familyPrompt, scopeOf } from "../support/kv-changes.ts";

/** A look-up, which may answer later, and how its workers come to have a prompt. */
export interface LookupOnTrial {
  blocksOf(scope: KvScope, tokens: Uint32Array, known?: PromptBlocks): PromptBlocks;
  find(prompt: PromptBlocks): readonly PrefixMatch[] | Promise<readonly PrefixMatch[]>;
  findGroups(
    groups: readonly GroupBlocks[],
  ): readonly PrefixMatch[] | Promise<readonly PrefixMatch[]>;
  join(): WorkerNumber;
  leave(worker: WorkerNumber): void;
  /** The worker has these full blocks on its device from now on. */
  give(worker: WorkerNumber, scope: KvScope, tokens: Uint32Array): void | Promise<void>;
  close?(): Promise<void>;
}

export function prefixLookupContract(name: string, create: () => LookupOnTrial): void {
  describe(name, () => {
    async function tried(run: (lookup: LookupOnTrial) => Promise<void>) {
      const lookup = create();
      await run(lookup).finally(() => lookup.close?.());
    }

    const leading = (a: Uint32Array, b: Uint32Array, size: number) => {
      let blocks = 0;
      while ((blocks + 1) * size <= Math.min(a.length, b.length)) {
        for (let at = blocks * size; at < (blocks + 1) * size; at++) {
          if (a[at] !== b[at]) return blocks;
        }
        blocks++;
      }
      return blocks;
    };

    test.for([1, 2])("[CL14] says who has how many leading blocks (seed %i)", (seed) =>
      tried(async (lookup) => {
        const chances = new Chances(seed);
        const scopes = [scopeOf(), scopeOf({ salt: "s" }), scopeOf({ blockTokens: 2 })];
        const workers = Array.from({ length: 40 }, () => lookup.join());
        expect(new Set(workers).size).toBe(40);
        const has = new Map<WorkerNumber, { scope: KvScope; tokens: Uint32Array }[]>();
        for (let step = 0; step < 200; step++) {
          const worker = chances.of(workers);
          const scope = chances.of(scopes);
          const tokens = familyPrompt(chances, 1 + chances.below(12));
          await lookup.give(worker, scope, tokens);
          has.set(worker, [...(has.get(worker) ?? []), { scope, tokens }]);
          const asked = familyPrompt(chances, chances.below(14));
          const wanted = chances.of(scopes);
          const found = await lookup.find(lookup.blocksOf(wanted, asked));
          const expected = [...has].flatMap(([worker, held]) => {
            const most = Math.max(
              0,
              ...held
                .filter(({ scope }) => scope === wanted)
                .map(({ tokens }) => leading(tokens, asked, wanted.blockTokens)),
            );
            return most === 0 ? [] : [{ worker, levels: [most, most, most] }];
          });
          const byWorker = (a: { worker: number }, b: { worker: number }) => a.worker - b.worker;
          expect([...found].sort(byWorker)).toEqual(expected.sort(byWorker));
        }
      }),
    );

    test("[CL14] a prompt without a full block is with none", () =>
      tried(async (lookup) => {
        await lookup.give(lookup.join(), scopeOf(), Uint32Array.of(1, 2, 3, 4));
        const prompt = lookup.blocksOf(scopeOf(), Uint32Array.of(1, 2, 3));
        expect(prompt.keys).toHaveLength(0);
        expect(await lookup.find(prompt)).toEqual([]);
        expect(await lookup.findGroups([])).toEqual([]);
        expect(await lookup.findGroups([{ prompt, windowTokens: null }])).toEqual([]);
      }));

    test("[CL14] a worker that left has nothing, and one with its number begins empty", () =>
      tried(async (lookup) => {
        const worker = lookup.join();
        const tokens = Uint32Array.from({ length: 12 }, (_, at) => at);
        await lookup.give(worker, scopeOf(), tokens);
        const prompt = lookup.blocksOf(scopeOf(), tokens);
        expect(await lookup.find(prompt)).toHaveLength(1);
        lookup.leave(worker);
        expect(await lookup.find(prompt)).toEqual([]);
        expect(lookup.join()).toBe(worker);
        expect(await lookup.find(prompt)).toEqual([]);
      }));

    test("[CL14] groups agree on what all of them have", () =>
      tried(async (lookup) => {
        const worker = lookup.join();
        const tokens = Uint32Array.from({ length: 20 }, (_, at) => at);
        const other = scopeOf({ group: 1 });
        await lookup.give(worker, scopeOf(), tokens);
        const groups = [scopeOf(), other].map((scope) => ({
          prompt: lookup.blocksOf(scope, tokens),
          windowTokens: null,
        }));
        expect(await lookup.findGroups(groups)).toEqual([]);
        await lookup.give(worker, other, tokens.subarray(0, 12));
        expect(await lookup.findGroups(groups)).toEqual([{ worker, levels: [3, 3, 3] }]);
      }));
  });
}
