/** Models over several processes: what they compute, and how they end. */
import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { type GenerateOptions, LLM, type LoadOptions } from "#engine";
import { decoderFixtures, fixturePath } from "../../contracts/recorded-model.ts";
import { eachNth } from "../../support/full.ts";
import { isAlive } from "../../support/process-alive.ts";
import { until } from "../../support/until.ts";

/** Processes that this one started and that run, or are stopped. */
function children(): number[] {
  const rows = execFileSync("ps", ["-A", "-o", "pid=,ppid=,args="], { encoding: "utf8" });
  const all = rows.split("\n").flatMap((row) => {
    const [, pid, parent, command = ""] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(row) ?? [];
    return command.includes("stage-process.js")
      ? [{ pid: Number(pid), parent: Number(parent) }]
      : [];
  });
  const found: number[] = [];
  const add = (parent: number) => {
    for (const { pid } of all.filter((one) => one.parent === parent)) {
      found.push(pid);
      add(pid);
    }
  };
  add(process.pid);
  return found;
}

const prompts = ["A hash table stores", "The sea", "Once", "def main():"];

/** Greedy, sampled, forked and searched; with edits, log-probabilities and prompts' results. */
const asks: readonly GenerateOptions[] = [
  { temperature: 0, maxTokens: 12, promptLogprobs: 2, logprobs: 2 },
  { temperature: 1, seed: 3, maxTokens: 12, n: 3, logprobs: 3 },
  { temperature: 0.7, seed: 6, repetitionPenalty: 1.3, frequencyPenalty: 0.2, maxTokens: 12 },
  { temperature: 1, seed: 9, structuredOutput: { choice: ["yes", "no"] }, maxTokens: 8 },
  { beamWidth: 3, n: 2, maxTokens: 8 },
];

async function answers(llm: LLM, wanted = asks) {
  const all = wanted.map(async (options) => {
    const results = await llm.generate(prompts, options);
    return results.map(({ completions, promptLogprobs }) => ({
      promptLogprobs,
      completions: completions.map(({ tokenIds, logprobs, finishReason }) => {
        return { tokenIds, logprobs, finishReason };
      }),
    }));
  });
  const embeddings = await llm.embed(prompts);
  return { answers: await Promise.all(all), embeddings };
}

function load(stages: number, options: LoadOptions = {}, place = "models/pocket"): Promise<LLM> {
  return LLM.load(place, {
    ...{ device: "cpu", dtype: "float32", threads: 1 },
    pipeline: { stages, chunkTokens: 24, timeoutMs: 60_000 },
    scheduler: { runningSequencesMax: 12, stepTokensMax: 24 },
    ...options,
  });
}

describe("several stages", () => {
  test.for(eachNth(2, [2, 4]))(
    "[PP3] %i stages answer as one does, bit for bit",
    async (stages) => {
      const expected = await (async () => {
        await using llm = await load(1);
        return await answers(llm);
      })();
      {
        await using llm = await load(stages);
        expect(children()).toHaveLength(stages - 1);
        expect(await answers(llm)).toEqual(expected);
      }
      expect(children()).toEqual([]);
    },
  );

  test.for(eachNth(4, decoderFixtures))(
    "[PP3] so they do for every family: %s",
    async (fixture) => {
      const ask = async (stages: number) => {
        await using llm = await load(stages, {}, fixturePath(fixture));
        const promptTokenIds = Array.from({ length: 60 }, (_, place) => 3 + place);
        const options = { temperature: 0, maxTokens: 6, logprobs: 2, promptLogprobs: 1 };
        const [result] = await llm.generate({ promptTokenIds }, { ...options, ignoreEos: true });
        return { result: result?.completions, prompt: result?.promptLogprobs, info: llm.info };
      };
      const [one, two] = [await ask(1), await ask(2)];
      expect(two.result).toEqual(one.result);
      expect(two.prompt).toEqual(one.prompt);
      expect(two.info).toEqual(one.info);
    },
  );

  test.for(["bfloat16", "int8"] as const)(
    "[PP16] so they do with weights of %s",
    async (format) => {
      const weights = format === "int8" ? { quantization: format } : { dtype: format };
      const ask = async (stages: number) => {
        await using llm = await load(stages, { dtype: "auto", ...weights });
        const results = await llm.generate(prompts, { temperature: 0, maxTokens: 8, logprobs: 1 });
        return results.map(({ completions }) => completions[0]?.logprobs);
      };
      expect(await ask(2)).toEqual(await ask(1));
    },
  );

  test("[PP17] where the time of their steps goes is in the figures", async () => {
    await using llm = await load(2);
    expect(llm.stats().stages.map(({ steps }) => steps)).toEqual([0, 0]);
    const promptTokenIds = Array.from({ length: 90 }, (_, place) => 3 + place);
    await llm.generate({ promptTokenIds }, { temperature: 0, maxTokens: 1 });
    await expect.poll(() => llm.stats().stages.map(({ steps }) => steps)).toEqual([4, 4]);
    for (const { computeMs, waitMs, copyMs } of llm.stats().stages) {
      expect(computeMs).toBeGreaterThan(0);
      expect(Math.min(waitMs, copyMs)).toBeGreaterThanOrEqual(0);
    }
  });

  test("[KV68] what is held at all stages is in the figures of a request and of all", async () => {
    await using llm = await load(2);
    const options = { temperature: 0, maxTokens: 24, ignoreEos: true, returnKvByteSeconds: true };
    const [result] = await llm.generate(["The sea"], options);
    const held = result?.completions[0]?.kvByteSeconds ?? 0;
    expect(held).toBeGreaterThan(0);
    await expect.poll(() => llm.stats().cache?.kvByteSeconds).toBeCloseTo(held, 0);
  });

  test("[PP4] blocks are moved at all stages: host memory, forks and prefixes", async () => {
    const BLOCK_BYTES = 3072;
    const ask = async (stages: number) => {
      await using llm = await load(
        stages,
        {
          kvCache: {
            ...{ blockTokens: 4, onboard: "always" },
            ...{ poolBytes: 30 * BLOCK_BYTES, hostCacheBytes: 60 * BLOCK_BYTES },
          },
        },
        fixturePath("llama"),
      );
      const tell = async (first: number) => {
        const promptTokenIds = Array.from({ length: 90 }, (_, place) => 3 + first + place);
        const options = { temperature: 0, maxTokens: 4, logprobs: 1 };
        const [result] = await llm.generate({ promptTokenIds }, options);
        return { tokens: result?.completions, cached: result?.cachedTokens };
      };
      const told = [];
      for (const first of [0, 20, 40, 0, 20]) told.push(await tell(first));
      return { told, levels: llm.stats().cache?.levels.map(({ hitTokens }) => hitTokens) };
    };
    const [one, two] = [await ask(1), await ask(2)];
    expect(two).toEqual(one);
    expect(two.levels?.[1]).toBeGreaterThan(0);
  });
});

describe("[PP5] what stages cannot do is refused at load, with the setting to change", () => {
  const cases: readonly (readonly [string, LoadOptions, RegExp, string])[] = [
    [
      "more stages than layers",
      { pipeline: { stages: 64, chunkTokens: 24 } },
      /pipeline.stages must be at most the \d+ layers of the model, current value is 64; lower it$/,
      "pipeline.stages",
    ],
    [
      "drafts",
      { speculative: { kind: "lookup" } },
      /speculative.kind must be off, current value is lookup; draft at workers of one stage/,
      "speculative.kind",
    ],
    [
      "a disk",
      { kvCache: { diskCacheBytes: 1e7, diskCacheDir: "/tmp" } },
      /diskCacheBytes must be 0, .*; give the memory of the host more blocks/,
      "kvCache.diskCacheBytes",
    ],
    [
      "small chunks",
      { pipeline: { stages: 2, chunkTokens: 4 } },
      /stages: chunkTokens must be at least the 12 of runningSequencesMax, current value is 4/,
      "pipeline.chunkTokens",
    ],
    [
      "chunks whose hidden states are too large to be mapped",
      { pipeline: { stages: 2, chunkTokens: 2 ** 30 } },
      /chunkTokens must be at most \d+, whose hidden states are 4 GiB, .* 1073741824; lower it$/,
      "pipeline.chunkTokens",
    ],
  ];
  test.for(cases)("%s", async ([, options, message, param]) => {
    await expect(load(2, options)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      param,
      message,
    });
    expect(children()).toEqual([]);
  });

  test("blocks of several groups of layers that would travel", async () => {
    await expect(load(2, { kvTransfer: {} }, fixturePath("gemma2"))).rejects.toMatchObject({
      ...{ code: "INVALID_ARGUMENT", param: "kvTransfer" },
      message: /kvTransfer must be null for a model with 2 groups of layers, .*take one stage$/,
    });
    expect(children()).toEqual([]);
  });

  test("an encoder", async () => {
    await expect(load(2, {}, fixturePath("bert-encoder"))).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: /pipeline.stages must be 1 for bert, an encoder, current value is 2; leave it out/,
    });
  });

  test("automatic drafts are off with several stages", async () => {
    await using llm = await load(2, { speculative: { kind: "auto" } });
    expect(llm.info.speculative).toBeNull();
  });
});

describe("a stage that fails", () => {
  /** A request whose answer takes long, once it has begun. */
  async function begun(llm: LLM) {
    const options = { temperature: 0, maxTokens: 2000, ignoreEos: true };
    const stream = llm.stream("Once", options)[Symbol.asyncIterator]();
    await stream.next();
    const rest = (async () => {
      for (;;) if ((await stream.next()).done === true) return;
    })();
    rest.catch(() => {});
    return { rest };
  }

  test.for([1, 0])(
    "[PP6] a killed stage ends requests and the engine (%i behind it)",
    async (at) => {
      await using llm = await load(3);
      const pids = children();
      const { rest } = await begun(llm);
      process.kill(pids[1 - at] ?? 0, "SIGKILL");
      await expect(rest).rejects.toMatchObject({
        code: "DEVICE_FAILED",
        message: /pipeline stage \d of 3 \(process \d+\) .*start this worker again/,
      });
      await expect(llm.generate("Once", {})).rejects.toMatchObject({ code: "ENGINE_DEAD" });
      await until("all stages end", () => pids.every((pid) => !isAlive(pid)));
    },
  );

  test("[PP6] a stage that is killed while there is no work ends the engine, too", async () => {
    await using llm = await load(2);
    process.kill(children()[0] ?? 0, "SIGKILL");
    await until("the engine ends", async () => {
      const tried = await llm.generate("Once", { maxTokens: 1 }).catch((error) => error.code);
      return tried === "ENGINE_DEAD";
    });
  });

  test("[PP7] a silent stage is given up after its time", async () => {
    await using llm = await load(2, {
      pipeline: { stages: 2, chunkTokens: 24, timeoutMs: 1000 },
    });
    const [pid = 0] = children();
    const { rest } = await begun(llm);
    process.kill(pid, "SIGSTOP");
    await expect(rest).rejects.toMatchObject({
      code: "DEVICE_FAILED",
      message: /pipeline stage 2 of 2 \(process \d+\) said nothing for 1000 ms/,
    });
    await until("the stage ends", () => !isAlive(pid));
  });

  test("[PP8] signals of a terminal do not end a stage, the end of the stage before does", async () => {
    const llm = await load(3);
    const pids = children();
    for (const pid of pids) process.kill(pid, "SIGINT");
    const [result] = await llm.generate("Once", { temperature: 0, maxTokens: 3 });
    expect(result?.completions[0]?.tokenIds).toHaveLength(3);
    await llm.close();
    expect(pids.filter(isAlive)).toEqual([]);
  });
});
