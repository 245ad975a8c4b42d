/**
 * An EAGLE-3 drafts the same of a sequence whatever happened to it: so its keys and values are
 * those of a run without disturbance.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { type GenerateOptions, LLM, type LoadOptions } from "#engine";
import { type DraftSeed, type TokenTree, treeOf } from "#speculative";
import { KvDrafter } from "../../src/engine/forward/kv-drafter.ts";
import { fixturePath, openRecordedModel } from "../contracts/recorded-model.ts";
import { cpuThreads } from "../support/full.ts";
import { writeRandomDraftModel } from "../support/random-drafter.ts";
import { writeRandomEagle3 } from "../support/random-eagle3.ts";

const blockTokens = 4;
const folder = mkdtempSync(join(tmpdir(), "perigee-eagle3-"));
afterAll(() => rmSync(folder, { recursive: true }));
const drafter = join(folder, "eagle3");
writeRandomEagle3(drafter, { base: 96, taps: [0, 1, 2], vocabulary: 320, drafted: 150 });

type Options = Pick<
  LoadOptions,
  "kvCache" | "scheduler" | "overlapSteps" | "device" | "speculative"
>;
const greedy: GenerateOptions = { temperature: 0, maxTokens: 30, ignoreEos: true };

function load(
  { kvCache, scheduler, speculative, ...options }: Options = {},
  fixture = "llama",
): Promise<LLM> {
  return LLM.load(fixturePath(fixture), {
    ...{ device: "cpu", dtype: "float32", threads: cpuThreads, engineThread: false },
    speculative: {
      ...{ kind: "eagle3", model: drafter, lengthMax: 5, adaptive: false },
      ...speculative,
    },
    kvCache: { blockTokens, ...kvCache },
    scheduler: { runningSequencesMax: 12, stepTokensMax: 256, ...scheduler },
    ...options,
  });
}

const prompts = openRecordedModel("llama").cases.map(({ prompt }) => ({
  promptTokenIds: [...prompt.slice(0, 40), ...prompt.slice(0, 30)],
}));

/** What was drafted, by position and token. */
type Drafts = Map<string, Set<string>>;
let drafts: Drafts = new Map();
/** What is proposed instead, if anything. */
let instead: ((tree: TokenTree, seed: DraftSeed) => TokenTree) | null = null;
const { draft: original, late: started } = KvDrafter.prototype;

/** Seeds whose drafts are the likeliest tokens, so that those of samples can be compared. */
function likeliest(seeds: readonly DraftSeed[]): readonly DraftSeed[] {
  return seeds.map((seed) => ({ ...seed, sampling: null }));
}

/** Takes note of what was drafted behind a seed: the root, then the drafted tokens. */
function note({ position, rows, root }: DraftSeed, tokens: readonly number[]): void {
  const key = `${position + rows.length} ${root}`;
  drafts.set(key, (drafts.get(key) ?? new Set()).add(tokens.join(" ")));
}

beforeEach(() => {
  drafts = new Map();
  instead = null;
  KvDrafter.prototype.draft = async function draft(seeds) {
    const trees = await original.call(this, likeliest(seeds));
    trees.forEach(({ tokens }, place) => {
      const seed = seeds[place];
      if (seed !== undefined) note(seed, [...tokens]);
    });
    return trees.map((tree, place) => {
      const seed = seeds[place];
      return instead === null || seed === undefined ? tree : instead(tree, seed);
    });
  };
});
beforeEach(() => {
  KvDrafter.prototype.late = function begin(seeds) {
    const late = instead === null ? started.call(this, likeliest(seeds)) : null;
    return (
      late && {
        nodesOf: (seed) => late.nodesOf(seed),
        sourceOf: (seed, node) => late.sourceOf(seed, node),
        take: async () => {
          const found = await late.take();
          for (const [place, seed] of seeds.entries())
            note(seed, [seed.root, ...(found[place] ?? [])]);
          return found;
        },
      }
    );
  };
});
afterEach(() => {
  KvDrafter.prototype.draft = original;
  KvDrafter.prototype.late = started;
});

/**
 * What is drafted for each prompt alone in a run that nothing disturbs, behind each of its tokens:
 * there is no room to verify anything, so every step drafts.
 */
async function undisturbed(
  options: Options = {},
  fixture = "llama",
  texts: typeof prompts = prompts,
): Promise<Drafts> {
  const scheduler = { runningSequencesMax: 1, stepTokensMax: 1 };
  for (const prompt of texts) {
    await using llm = await load({ ...options, scheduler }, fixture);
    await llm.generate(prompt, greedy);
  }
  const found = drafts;
  drafts = new Map();
  return found;
}

/**
 * Whether all that was drafted since was drafted in that run, too; `share`: as much of it, where
 * stored numbers are rounded and those of a step are not.
 */
function expectDraftedIn(wanted: Drafts, { least = 30, share = 1 } = {}): void {
  expect(drafts.size).toBeGreaterThan(least);
  const others: string[] = [];
  let count = 0;
  for (const [key, found] of drafts) {
    count += found.size;
    for (const tokens of found) if (wanted.get(key)?.has(tokens) !== true) others.push(tokens);
  }
  if (share === 1) expect(others).toEqual([]);
  else expect(others.length).toBeLessThanOrEqual((1 - share) * count);
}

const modes: Readonly<Record<string, Options>> = {
  "in one batch": {},
  "on the reference device": { device: "reference" },
  "in chunks of 5 tokens": { scheduler: { longPrefillTokensMax: 5 } },
  "in chunks of 1 token": { scheduler: { longPrefillTokensMax: 1 } },
  "with steps ahead": { overlapSteps: true },
};

describe("[SP16] the drafts of an EAGLE-3", () => {
  test.for(Object.entries(modes))("%s", async ([, options]) => {
    const wanted = await undisturbed();
    await using llm = await load(options);
    await llm.generate(prompts, greedy);
    expectDraftedIn(wanted);
    expect(llm.stats().heldBlocks).toBe(0);
  });

  test("behind prefix hits, of whole blocks and of parts of them", async () => {
    const long = openRecordedModel("llama").cases[3]?.prompt ?? [];
    const texts = [12, 23, 37, 64, 80].map((length) => ({
      promptTokenIds: [...long.slice(0, length), 7, 8, 9],
    }));
    const wanted = await undisturbed({}, "llama", texts);
    await using llm = await load();
    await llm.generate({ promptTokenIds: long }, greedy);
    drafts = new Map();
    let cachedTokens = 0;
    for (const text of texts) {
      const [result] = await llm.generate(text, greedy);
      cachedTokens += result?.cachedTokens ?? 0;
    }
    expect(cachedTokens).toBeGreaterThan(180);
    expectDraftedIn(wanted);
  });

  test("of samples that fork from one prompt", async () => {
    const sampled = { ...greedy, temperature: 1, seed: 4 };
    const [prompt = { promptTokenIds: [] }] = prompts.slice(3);
    await using llm = await load();
    const [result] = await llm.generate(prompt, { ...sampled, n: 3 });
    const forked = drafts;
    drafts = new Map();
    // Each sample's text as a prompt of its own, computed at once, at every length.
    await using other = await load({ kvCache: { prefixCaching: false } });
    for (const { tokenIds } of result?.completions ?? []) {
      for (let length = 1; length < tokenIds.length; length++) {
        const promptTokenIds = [...prompt.promptTokenIds, ...tokenIds.slice(0, length - 1)];
        const bad = { allowedTokenIds: [tokenIds[length - 1] ?? 0] };
        await other.generate({ promptTokenIds }, { ...greedy, ...bad, maxTokens: 3 });
      }
    }
    const wanted = drafts;
    drafts = forked;
    expectDraftedIn(wanted, { least: 20 });
  });

  test.for(["swap", "recompute"] as const)("after preemption by %s", async (preemption) => {
    const wanted = await undisturbed();
    const poolBytes = 60 * (await blockBytes());
    await using llm = await load({
      kvCache: { poolBytes, hostCacheBytes: 4 * poolBytes },
      scheduler: { preemption },
    });
    await llm.generate([...prompts, ...prompts], greedy);
    expect(llm.stats().preemptions).toBeGreaterThan(0);
    expectDraftedIn(wanted);
  });

  test.for([
    ["a window of 16 tokens", { kvCache: { attentionWindow: 16 } }, "llama", 1],
    ["int8 keys and values", { kvCache: { dtype: "int8" as const } }, "llama", 0.9],
    ["layers in groups", {}, "gemma2", 1],
  ] as const)("with %s", async ([, options, fixture, share]) => {
    const wanted = await undisturbed(options, fixture);
    await using llm = await load(options, fixture);
    await llm.generate(prompts, greedy);
    await llm.generate(prompts, greedy);
    expectDraftedIn(wanted, { share });
    expect(llm.stats().heldBlocks).toBe(0);
  });
});

describe("[SP17] what was accepted off a tree's first continuation", () => {
  const draftModel = join(folder, "draft-model");
  writeRandomDraftModel(draftModel, { vocabulary: 320 });

  test.for([
    ["eagle3", drafter],
    ["draft-model", draftModel],
  ] as const)("lies in its place when %s drafts", async ([kind, model]) => {
    const options = { speculative: { kind, model, width: 2 } };
    const wanted = await undisturbed(options);
    await using llm = await load(options);
    const plain: number[][] = [];
    for (const prompt of prompts) {
      const [result] = await llm.generate(prompt, { ...greedy, speculative: false });
      const output = result?.completions[0]?.tokenIds ?? [];
      plain.push([...prompt.promptTokenIds, ...output]);
    }
    // Every tree has what is right in its last continuation, behind the network's own ones.
    instead = (tree, { position, rows, root, shape }) => {
      const place = position + rows.length;
      const right = plain.flatMap((tokens) =>
        tokens[place] === root ? [tokens.slice(place + 1, place + 1 + shape.length)] : [],
      );
      const [wrong = []] = [[...tree.tokens.subarray(1, 1 + shape.length)]];
      return treeOf(
        root,
        [wrong, ...right].map((tokens) => Int32Array.from(tokens)),
        64,
      );
    };
    drafts = new Map();
    const results = await llm.generate(prompts, greedy);
    const outputs = results.map(({ completions }) => completions[0]?.tokenIds);
    expect(outputs).toEqual(
      plain.map((tokens, at) => tokens.slice(prompts[at]?.promptTokenIds.length)),
    );
    expect(llm.stats().acceptedTokens).toBeGreaterThan(60);
    expectDraftedIn(wanted, { least: 15 });
  });
});

/** Of the model with its drafter. */
async function blockBytes(): Promise<number> {
  await using llm = await load();
  return llm.info.bytesPerBlock;
}
