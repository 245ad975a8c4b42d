/** With drafted tokens the engine gives the tokens that it gives without, however steps are made. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type EngineStats,
  type GenerateOptions,
  type GenerateResult,
  LLM,
  type LoadOptions,
} from "#engine";
import {
  type Drafter,
  type DraftSeed,
  Lookup,
  type TokenSource,
  type TokenTree,
  treeOf,
} from "#speculative";
import { KvDrafter } from "../../src/engine/forward/kv-drafter.ts";
import { RowDrafter } from "../../src/engine/forward/row-drafter.ts";
import { cpuThreads, full, sized } from "../support/full.ts";
import {
  writeRandomDrafter,
  writeRandomDraftModel,
  writeRandomMedusa,
} from "../support/random-drafter.ts";
import { writeRandomEagle3 } from "../support/random-eagle3.ts";
import { writeSmallTokenizer } from "../support/small-tokenizer.ts";
import { RandomNumbers } from "./device-ops/random.ts";
import { fixturePath, openRecordedModel } from "./recorded-model.ts";

type Options = Pick<LoadOptions, "kvCache" | "scheduler" | "overlapSteps">;

const blockTokens = 4;

/** How tokens are sampled: the state that a draft must neither see nor leave behind. */
const samplings: Readonly<Record<string, GenerateOptions>> = {
  greedy: { temperature: 0 },
  "with a seed": { temperature: 0.9, topP: 0.9, seed: 11 },
  "with penalties": { temperature: 0, repetitionPenalty: 1.3, frequencyPenalty: 0.2 },
  "with log-probabilities, and an end not before 20 tokens": {
    temperature: 0,
    logprobs: 3,
    minTokens: 20,
  },
  "three at a time": { temperature: 1, seed: 5, n: 3 },
};

const record = {
  type: "object",
  properties: {
    kind: { enum: ["road", "rail", "canal"] },
    names: { type: "array", items: { type: "string", maxLength: 4 }, maxItems: 2 },
    length: { type: "integer", minimum: 0, maximum: 999 },
  },
  required: ["kind", "names", "length"],
} as const;
const list = 'root ::= "<" item ("," item)* ">"\nitem ::= [a-c]+ "=" [0-9]+';

/** Outputs that a grammar constrains (SP24, SP25). */
const structuredSamplings: Readonly<Record<string, GenerateOptions>> = {
  "a JSON schema": { temperature: 0, structuredOutput: { json: record } },
  "a JSON schema, with penalties, log-probabilities and no early end": {
    ...{ temperature: 0.9, seed: 3, frequencyPenalty: 0.3, logprobs: 2, minTokens: 8 },
    structuredOutput: { json: record },
  },
  "a regular expression": {
    ...{ temperature: 1, topP: 0.95, seed: 4 },
    structuredOutput: { regex: "(ab|cd){2,12}-[0-9]{3,9}" },
  },
  "one of some choices": {
    ...{ temperature: 1, seed: 5 },
    structuredOutput: { choice: ["the long way", "the longer way", "no way", "any"] },
  },
  "EBNF, three at a time": {
    ...{ temperature: 1, seed: 6, n: 3 },
    structuredOutput: { grammar: list },
  },
};
/** One of them that runs on. */
const runsOn: GenerateOptions = { temperature: 0, structuredOutput: { grammar: list } };

const modes: Readonly<Record<string, Options>> = {
  "in one batch": {},
  "in chunks of 5 tokens": { scheduler: { longPrefillTokensMax: 5 } },
  "with steps ahead": { overlapSteps: true },
  "with a window of 16 tokens": { kvCache: { blockTokens, attentionWindow: 16 } },
  "with int8 keys and values": { kvCache: { blockTokens, dtype: "int8" } },
};

export interface SpeculationContract {
  readonly device: "reference" | "cpu" | "cuda";
  readonly cuda?: NonNullable<LoadOptions["cuda"]>;
  readonly fixtures: readonly string[];
  /** The fixture that runs in all modes; others run in one batch only. */
  readonly varied: string;
  /** How many continuations a draft has at most. Default: chains, and trees of 4. */
  readonly widths?: readonly number[];
  /** How many kinds of networks draft beside lookup in all modes. Default: two, and all at length. */
  readonly networks?: number;
  /** How many of the recorded prompts are continued. Default: all. */
  readonly prompts?: number;
  /** How long outputs are. Default: 40. */
  readonly newTokens?: number;
  /**
   * Whether all fixtures have structured outputs, in all modes and situations. Default: in the long
   * run. Otherwise the varied one has some.
   */
  readonly structured?: boolean;
}

/** What every device owes. */
export function speculationContract(contract: SpeculationContract): void {
  const { newTokens = 40, structured = full } = contract;
  // Each model that is loaded tries its grammar in a process.
  const constrained = structured ? [runsOn] : [];
  describe.each(contract.fixtures)(`${contract.device} and %s, with drafts`, (fixture) => {
    const { cases } = openRecordedModel(fixture);
    const isVaried = fixture === contract.varied;
    const folder = mkdtempSync(join(tmpdir(), "perigee-drafter-"));
    let forget = (): void => {};
    beforeAll(() => {
      forget = letNetworksForesee();
    });
    afterAll(() => {
      forget();
      rmSync(folder, { recursive: true });
    });
    const networks = writeDraftersFor(fixture, folder);
    const mixed = { ...networks[0], mixed: true };
    const chains = { ...networks[0], width: 1 };
    const modelPath = withTokenizer(fixture, folder);
    // Each text twice, so that there is something to look up: what follows the first time is
    // rarely what the model says the second time.
    const prompts = cases.slice(0, contract.prompts).map(({ prompt }) => ({
      promptTokenIds: [...prompt.slice(0, 40), ...prompt.slice(0, 40)],
    }));

    async function withModel<Result>(
      options: Options & Pick<LoadOptions, "speculative">,
      run: (llm: LLM) => Promise<Result>,
    ): Promise<Result> {
      await using llm = await LLM.load(modelPath, {
        device: contract.device,
        ...(contract.cuda !== undefined && { cuda: contract.cuda }),
        dtype: "float32",
        threads: cpuThreads,
        engineThread: false,
        ...options,
        // How much is drafted must not depend on how long steps take here.
        speculative: { kind: "off", ...options.speculative, adaptive: false },
        scheduler: { runningSequencesMax: 12, stepTokensMax: 256, ...options.scheduler },
      });
      const result = await run(llm);
      // What was aborted leaves within a step.
      await expect.poll(() => llm.stats()).toMatchObject({ heldBlocks: 0, running: 0, waiting: 0 });
      return result;
    }

    /**
     * What all give, chains, trees, and those of a network, and how often they drafted. The
     * network's weights are random, so half of its drafts are replaced by what plain runs say.
     */
    async function both(
      options: Options,
      run: (llm: LLM) => Promise<unknown>,
      of: (speculative: LoadOptions["speculative"]) => Promise<Options> = async () => options,
    ) {
      outputsSeen.length = 0;
      const plain = await withModel(options, run);
      const counts: Pick<EngineStats, "draftedTokens" | "acceptedTokens">[] = [];
      const looked = (contract.widths ?? [1, 4]).map(
        (width) => ({ kind: "lookup", lengthMax: 7, width }) as const,
      );
      // The engine tells networks apart by their trees, and by keys and values of their own: the
      // first two are enough for the short run.
      for (const speculative of [
        ...looked,
        ...networks.slice(0, contract.networks ?? sized(2, 4)),
        ...(isVaried ? [mixed] : []),
        // Chains that the device begins alone.
        ...(options.overlapSteps === true ? [chains] : []),
      ]) {
        const drafted = await withModel(
          { ...(await of(speculative)), speculative },
          async (llm) => {
            const result = await run(llm);
            counts.push(llm.stats());
            return result;
          },
        );
        expect(differenceOf(drafted, plain)).toBe(null);
      }
      for (const { draftedTokens } of counts) expect(draftedTokens).toBeGreaterThan(0);
      return counts;
    }

    const modesHere = Object.entries(modes).filter(([name]) => isVaried || name === "in one batch");

    test.for(modesHere)("all samplings %s", async ([, options]) => {
      const counts = await both(options, async (llm) => {
        const results: unknown[] = [];
        for (const sampling of Object.values(samplings)) {
          results.push(await generate(llm, prompts, { maxTokens: newTokens, ...sampling }));
        }
        return results;
      });
      for (const { draftedTokens, acceptedTokens } of counts) {
        expect(acceptedTokens).toBeGreaterThan(0);
        expect(acceptedTokens).toBeLessThan(draftedTokens);
      }
    });

    const few = isVaried ? modesHere.slice(0, 2) : [];
    test.for(structured ? modesHere : few)("[SP24] structured outputs %s", async ([, options]) => {
      await both(options, async (llm) => {
        const results: unknown[] = [];
        for (const sampling of Object.values(structuredSamplings)) {
          results.push(await generate(llm, prompts, { maxTokens: newTokens, ...sampling }));
        }
        return results;
      });
    });

    test.for(networks.map((network) => [network.kind, network] as const))(
      "[SP1] %s with random weights drafts, and nothing changes",
      async ([, network]) => {
        const run = (llm: LLM) => generate(llm, prompts, { maxTokens: newTokens, temperature: 0 });
        const plain = await withModel({}, run);
        outputsSeen.length = 0;
        const drafted = await withModel({ speculative: network }, async (llm) => {
          const results = await run(llm);
          expect(llm.stats().draftedTokens).toBeGreaterThan(newTokens);
          return results;
        });
        expect(differenceOf(drafted, plain)).toBe(null);
      },
    );

    test("[SP1] any trees: what follows is in any branch, in part of one, or in none", async () => {
      const options = { kvCache: { blockTokens } };
      const run = (llm: LLM) =>
        generate(llm, prompts, { maxTokens: newTokens, temperature: 0, logprobs: 1 });
      const plain = await withModel(options, run);
      const outputs = plain.map(({ tokens }, at) => [
        ...(prompts[at]?.promptTokenIds ?? []),
        ...tokens,
      ]);
      const speculative = { kind: "lookup", lengthMax: 7, width: 4 } as const;
      const restore = draftFrom(outputs);
      try {
        const drafted = await withModel({ ...options, speculative }, async (llm) => {
          const results = await run(llm);
          // Most accepted tokens are in other branches than the first.
          expect(llm.stats().acceptedTokens).toBeGreaterThan(prompts.length * 10);
          return results;
        });
        expect(differenceOf(drafted, plain)).toBe(null);
      } finally {
        restore();
      }
    });

    test("one after the other, then again from the prefix cache", async () => {
      await both({ kvCache: { blockTokens } }, async (llm) => {
        const results: unknown[] = [];
        for (const prompt of [...prompts, ...prompts]) {
          for (const sampling of [{ temperature: 0 }, ...constrained]) {
            results.push(await generate(llm, [prompt], { maxTokens: newTokens, ...sampling }));
          }
        }
        return results;
      });
    });

    test.runIf(isVaried).for(["recompute", "swap"] as const)(
      "in a pool with room for few, which %s",
      async (preemption) => {
        const blocks = 2 * Math.ceil((80 + newTokens) / blockTokens);
        // As many blocks with a drafter as without, whose part of a block it adds.
        const optionsFor = async (speculative?: LoadOptions["speculative"]) => {
          const one = { kvCache: { blockTokens }, ...(speculative && { speculative }) };
          const info = await withModel(one, async (llm) => llm.info);
          const poolBytes = info.bytesPerBlock * blocks * info.groupWindows.length;
          const kvCache = { blockTokens, poolBytes, hostCacheBytes: 4 * poolBytes };
          return { kvCache, scheduler: { preemption } };
        };
        const preempted: number[] = [];
        const run = async (llm: LLM) => {
          const all = [...prompts, ...prompts, ...prompts];
          const results: unknown[] = [];
          for (const sampling of [{ temperature: 0 }, ...constrained]) {
            results.push(await generate(llm, all, { maxTokens: newTokens, ...sampling }));
          }
          preempted.push(llm.stats().preemptions);
          return results;
        };
        await both(await optionsFor(), run, optionsFor);
        expect(Math.min(...preempted)).toBeGreaterThan(0);
      },
    );

    test.runIf(isVaried)("requests that join and leave, and one that is aborted", async () => {
      await both({}, async (llm) => {
        const lengths = prompts.map(async (prompt, place) => {
          await new Promise((resolve) => setTimeout(resolve, 3 * place));
          const sampling = constrained[place % 2] ?? { temperature: 0 };
          return generate(llm, [prompt], { maxTokens: 5 + 7 * place, ...sampling });
        });
        const controller = new AbortController();
        const aborted = generate(llm, prompts, { maxTokens: 400, signal: controller.signal });
        setTimeout(() => controller.abort(), 10);
        await expect(aborted).rejects.toThrow();
        return await Promise.all(lengths);
      });
    });

    test.runIf(isVaried)("an end in the middle of a draft: stop tokens, lengths", async () => {
      const [longest] = await withModel({}, (llm) =>
        generate(llm, prompts.slice(0, 1), { maxTokens: newTokens, temperature: 0 }),
      );
      const stops = [...new Set(longest?.tokens ?? [])];
      await both({}, async (llm) => {
        const results: unknown[] = [];
        for (const stop of stops) {
          const options = { maxTokens: newTokens, temperature: 0, stopTokenIds: [stop] };
          results.push(await generate(llm, prompts, options));
        }
        for (let maxTokens = 1; maxTokens < 20; maxTokens++) {
          results.push(await generate(llm, prompts, { maxTokens, temperature: 0 }));
          for (const sampling of constrained) {
            results.push(await generate(llm, prompts, { maxTokens, ...sampling }));
          }
        }
        for (const stop of ["=", ",a", ">"]) {
          for (const sampling of constrained) {
            const options = { maxTokens: newTokens, stop, ...sampling };
            results.push(await generate(llm, prompts, options));
          }
        }
        return results;
      });
    });
  });
}

/** A recorded model that has a tokenizer, too, which grammars need. */
function withTokenizer(fixture: string, folder: string): string {
  const source = fixturePath(fixture);
  for (const name of readdirSync(source)) symlinkSync(join(source, name), join(folder, name));
  writeSmallTokenizer(folder, vocabularyOf(fixture));
  return folder;
}

function vocabularyOf(fixture: string): number {
  const config: { vocab_size: number } = JSON.parse(
    readFileSync(join(fixturePath(fixture), "config.json"), "utf8"),
  );
  return config.vocab_size;
}

/** Networks with random weights for a fixture, in folders of their own. */
function writeDraftersFor(fixture: string, folder: string) {
  const config: unknown = JSON.parse(
    readFileSync(join(fixturePath(fixture), "config.json"), "utf8"),
  );
  const fields = new Map(Object.entries(config ?? {}));
  const hidden = Number(fields.get("hidden_size") ?? fields.get("n_embd"));
  const vocabulary = Number(fields.get("vocab_size"));
  const [redrafter, medusa] = [join(folder, "redrafter"), join(folder, "medusa")];
  const [draftModel, eagle3] = [join(folder, "draft-model"), join(folder, "eagle3")];
  writeRandomDrafter(redrafter, {
    ...{ hidden_size: hidden, vocab_size: vocabulary, exit_dim: 2 * hidden },
    ...{ num_draft_layers: 1, rnn: true },
  });
  writeRandomMedusa(medusa, { hidden, vocabulary, heads: 5, layers: 1 });
  writeRandomDraftModel(draftModel, { vocabulary });
  const layers = Number(fields.get("num_hidden_layers") ?? fields.get("n_layer"));
  const taps = [0, 1, 2].filter((layer) => layer < layers);
  writeRandomEagle3(eagle3, { base: hidden, taps, vocabulary });
  return [
    { kind: "redrafter", model: redrafter, lengthMax: 5, width: 3 },
    { kind: "eagle3", model: eagle3, lengthMax: 5, width: 2 },
    { kind: "draft-model", model: draftModel, lengthMax: 5, width: 1 },
    { kind: "medusa", model: medusa, lengthMax: 5, width: 3 },
  ] as const;
}

/** Prompts and outputs of plain runs: what the network below foresees. */
const outputsSeen: number[][] = [];

/** Every second draft of a network has a branch of each output that was seen to go on so. */
async function foresee(
  trees: ReturnType<Drafter["draft"]>,
  seeds: readonly DraftSeed[],
): Promise<readonly TokenTree[]> {
  const made = await trees;
  return seeds.map((seed, place) => {
    const branches = outputsSeen.flatMap((tokens) => continuationOf(tokens, seed));
    const tree = made[place];
    if (!tree || branches.length === 0 || seed.position % 2 === 0) return tree ?? none;
    return treeOf(seed.root, branches.slice(-seed.shape.width), 64);
  });
}

/**
 * Lets all networks draft what was seen, until the returned function is called: other files may
 * share this process.
 */
function letNetworksForesee(): () => void {
  const { draft: rowDraft, late: rowLate, ahead: rowAhead } = RowDrafter.prototype;
  const { draft: kvDraft, late: kvLate } = KvDrafter.prototype;
  // In a third of the steps the next one begins before the host knows what was drafted.
  const isLate = ([seed]: readonly Pick<DraftSeed, "position">[]) =>
    (seed?.position ?? 0) % 3 === 0;
  RowDrafter.prototype.draft = function draft(seeds) {
    return foresee(rowDraft.call(this, seeds), seeds);
  };
  KvDrafter.prototype.draft = function draft(seeds) {
    return foresee(kvDraft.call(this, seeds), seeds);
  };
  RowDrafter.prototype.late = function late(seeds) {
    return isLate(seeds) ? rowLate.call(this, seeds) : null;
  };
  RowDrafter.prototype.ahead = function ahead(seeds) {
    return isLate(seeds) ? rowAhead.call(this, seeds) : null;
  };
  KvDrafter.prototype.late = function late(seeds) {
    return isLate(seeds) ? kvLate.call(this, seeds) : null;
  };
  return () => {
    RowDrafter.prototype.draft = rowDraft;
    RowDrafter.prototype.late = rowLate;
    RowDrafter.prototype.ahead = rowAhead;
    KvDrafter.prototype.draft = kvDraft;
    KvDrafter.prototype.late = kvLate;
    outputsSeen.length = 0;
  };
}

const none = treeOf(0, [], 1);

function continuationOf(tokens: readonly number[], { position, rows, root, shape }: DraftSeed) {
  const place = position + rows.length;
  if (tokens[place] !== root) return [];
  return [Int32Array.from(tokens.slice(place + 1, place + 1 + shape.length))];
}

/**
 * Drafts of all lookups, until the returned function is called: four branches, each of which
 * follows one of `outputs` for some tokens, and then says anything.
 */
function draftFrom(outputs: readonly (readonly number[])[]): () => void {
  const random = new RandomNumbers(7);
  const original = Object.getOwnPropertyDescriptor(Lookup.prototype, "draft");
  const draft = (text: TokenSource): Int32Array[] => {
    const known = [...text.view(0, text.length)];
    const output = outputs.find((tokens) => known.every((token, at) => tokens[at] === token)) ?? [];
    return Array.from({ length: 4 }, () => {
      const right = output.slice(known.length, known.length + random.below(7));
      const wrong = Array.from({ length: 1 + random.below(3) }, () => random.below(300));
      return Int32Array.from([...right, ...wrong].slice(0, 7));
    });
  };
  Object.defineProperty(Lookup.prototype, "draft", { value: draft, configurable: true });
  return () => {
    if (original !== undefined) Object.defineProperty(Lookup.prototype, "draft", original);
  };
}

interface Generated {
  readonly tokens: readonly number[];
  readonly rest: unknown;
}

/** Tokens, reasons and log-probabilities of each sequence. */
async function generate(
  llm: LLM,
  prompts: readonly { readonly promptTokenIds: readonly number[] }[],
  options: GenerateOptions,
): Promise<Generated[]> {
  const results: GenerateResult[] = await llm.generate(prompts, options);
  if (llm.info.speculative === null) {
    results.forEach(({ completions }, at) => {
      const prompt = prompts[at]?.promptTokenIds ?? [];
      for (const { tokenIds } of completions) outputsSeen.push([...prompt, ...tokenIds]);
    });
  }
  return results.flatMap(({ completions }) =>
    completions.map(({ tokenIds, logprobs, finishReason, stopReason, index }) => ({
      tokens: tokenIds,
      rest: { logprobs, finishReason, stopReason, index },
    })),
  );
}

/**
 * Where two results differ; null: nowhere. Log-probabilities of one device are equal up to the
 * order of sums in a batch; tokens are whole numbers, and equal.
 */
function differenceOf(one: unknown, other: unknown, path = ""): string | null {
  if (typeof one === "number" && typeof other === "number") {
    const isSame = Number.isInteger(one) ? one === other : Math.abs(one - other) < 1e-4;
    return isSame ? null : `${path}: ${one} and ${other}`;
  }
  const isNested = typeof one === "object" && one !== null;
  if (!isNested || typeof other !== "object" || other === null) {
    return Object.is(one, other) ? null : `${path}: ${String(one)} and ${String(other)}`;
  }
  const [values, others] = [new Map(Object.entries(one)), new Map(Object.entries(other))];
  for (const key of new Set([...values.keys(), ...others.keys()])) {
    const found = differenceOf(values.get(key), others.get(key), `${path}.${key}`);
    if (found !== null) return found;
  }
  return null;
}
