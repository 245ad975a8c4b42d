import { z } from "zod";
import { fieldNames, invalidSetting, issueText } from "#base";
import { DRAFT_KINDS, DRAFT_LENGTH_MAX, DRAFT_WIDTH_MAX, GrammarOptions } from "#sampling";
import { SchedulerConfig } from "#scheduler";
import { byteCount, KvCacheOptions } from "./kv-cache-config.ts";
import { KvTransferOptions } from "./kv-transfer-config.ts";
import { MockOptions } from "./mock-config.ts";
import { PipelineOptions } from "./pipeline-config.ts";

/** Where the cuda device finds libraries and keeps compiled kernels, and how it runs steps. */
export const CudaOptions = z.strictObject({
  home: z
    .string()
    .nullable()
    .default(null)
    .describe(
      "Folder of the CUDA toolkit; null: found by the system's loader or under /usr/local.",
    ),
  pythonRoots: z
    .array(z.string())
    .nullable()
    .default(null)
    .describe(
      "Folders of Python environments with NVIDIA's packages; null: the user's and the system's.",
    ),
  cacheFolder: z
    .string()
    .nullable()
    .default(null)
    .describe("Folder for compiled GPU kernels; null: ~/.cache/perigee/kernels."),
  graphs: z
    .boolean()
    .default(true)
    .describe("Capture decoding steps in CUDA graphs (off: launch every kernel by itself)."),
});

/** Drafted tokens, which a step verifies several of at a time. */
export const SpeculativeOptions = z
  .strictObject({
    kind: z
      .enum([...DRAFT_KINDS, "auto", "off"])
      .default("off")
      .describe(
        "How tokens are drafted: lookup in the prompt and the output so far, redrafter (a " +
          "recurrent network beside the model), medusa (heads on the model's hidden states), " +
          "draft-model (a small model of the same vocabulary), eagle3 (a layer over the model's " +
          "hidden states), auto (lookup, and beside it a network that lies in the model's " +
          "folder, as far as measured times of steps say that it helps), or not at all (off). " +
          "The output is the same. perigee serve, worker, generate and chat use auto by default.",
      ),
    model: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .describe(
        "Folder of the drafter's config.json and model.safetensors; null: drafters/KIND in the " +
          "model's own folder.",
      ),
    lengthMax: z
      .int()
      .min(1)
      .max(DRAFT_LENGTH_MAX)
      .nullable()
      .default(null)
      .describe(
        "Most drafted tokens of a sequence in one step, in one continuation; null: 31 of " +
          "lookup, 3 of medusa, 4 of redrafter, draft-model and eagle3.",
      ),
    width: z
      .int()
      .min(1)
      .max(DRAFT_WIDTH_MAX)
      .nullable()
      .default(null)
      .describe(
        "Most drafted continuations of a sequence in one step, verified together as a tree of 64 " +
          "tokens at most; null: 2 of medusa, else 1.",
      ),
    earlierBytes: z
      .int()
      .nonnegative()
      .default(0)
      .describe(
        "Memory for outputs of earlier requests, in which lookup also looks, for each cache salt " +
          "alone; 0: none are kept.",
      ),
    mixed: z
      .boolean()
      .default(false)
      .describe(
        "Look up for requests that a network drafts for, too, and verify in each step the draft " +
          "that is expected to give more tokens; auto does so.",
      ),
    adaptive: z
      .boolean()
      .default(true)
      .describe(
        "Verify as much of the drafts as makes steps quickest for their tokens, by measured " +
          "times, and draft nothing where that is slower; off: verify all that is drafted.",
      ),
    measureMs: z
      .int()
      .nonnegative()
      .max(600_000)
      .default(500)
      .describe(
        "Most ms of loading in which it is measured what steps with drafts take, for adaptive; " +
          "what is not measured then is learned from requests.",
      ),
  })
  .refine(({ kind, model }) => model === null || !(kind === "off" || kind === "lookup"), {
    path: ["model"],
    error:
      "must be left out with kind off and lookup, which have no drafter: name what drafts, too " +
      "(redrafter, medusa, eagle3, draft-model)",
  })
  .refine(({ kind, model }) => model === null || kind !== "auto", {
    path: ["model"],
    error: "must be left out with kind auto, which takes a drafter of the model's own folder",
  });

/** How a model is loaded and run. CLI flags and `LLM.load` options are made from this. */
export const EngineOptions = z
  .strictObject({
    device: z
      .enum(["auto", "cpu", "cuda", "reference"])
      .default("auto")
      .describe("Where the model runs; auto: cuda where a GPU can be used, else cpu."),
    dtype: z
      .enum(["auto", "float32", "bfloat16"])
      .default("auto")
      .describe(
        "Format of weights; auto: float32 for float32 files on a CPU, else bfloat16. With " +
          "quantization, it is the format of the weights that are not quantised.",
      ),
    randomWeights: z
      .boolean()
      .default(false)
      .describe(
        "Random weights from a fixed seed, for benchmarks of a model that has only a config.json.",
      ),
    mock: MockOptions.nullable()
      .default(null)
      .describe("Costs of steps in place of a model: tokens are made up, no weights are read."),
    quantization: z
      .enum(["none", "int8"])
      .default("none")
      .describe(
        "Quantise weights at load: int8 by groups of columns, 32 on a CPU and 128 on a GPU.",
      ),
    threads: z
      .int()
      .min(1)
      .max(1024)
      .nullable()
      .default(null)
      .describe("CPU threads; null: one per physical core."),
    isa: z
      .enum(["avx2", "avxvnni", "avx512", "amx", "neon"])
      .nullable()
      .default(null)
      .describe("CPU instruction set; null: the best that the CPU has."),
    gpuMemoryUtilization: z
      .number()
      .gt(0)
      .max(1)
      .default(0.9)
      .describe(
        "Share of the GPU's total memory that all processes together may use: keys and values " +
          "get what weights, steps and other processes leave of it. poolBytes sets their size " +
          "in bytes instead.",
      ),
    overlapSteps: z
      .boolean()
      .nullable()
      .default(null)
      .describe("Start a step while the previous one still runs; null: if the device supports it."),
    pipeline: PipelineOptions.prefault({}),
    cuda: CudaOptions.prefault({}),
    speculative: SpeculativeOptions.prefault({}),
    kvCache: KvCacheOptions.prefault({}),
    scheduler: SchedulerConfig.prefault({}),
    kvTransfer: KvTransferOptions.nullable()
      .default(null)
      .describe("Give keys and values to other engines, and take theirs; null: no."),
    promptLogprobsMax: z
      .int()
      .positive()
      .default(262_144)
      .describe(
        "Most prompt log-probabilities of one request: prompt tokens times log-probabilities " +
          "per token.",
      ),
    // Ordinary readers lag by the tokens of one step.
    unreadTokensMax: z
      .int()
      .positive()
      .default(256)
      .describe(
        "Most tokens of a streamed sequence that may wait to be read; at this number the " +
          "request pauses.",
      ),
    grammar: GrammarOptions.prefault({}),
    chatTemplate: z
      .string()
      .nullable()
      .default(null)
      .describe("Jinja template, or a file with one, instead of the model's."),
    promptBytesMax: byteCount
      .nullable()
      .default(null)
      .describe(
        "Longest text of a prompt or a rendered conversation; null: 16 bytes for each token of " +
          "the context, at least 512 KiB.",
      ),
    textWorkers: z
      .int()
      .min(1)
      .max(64)
      .default(3)
      .describe(
        "Most threads that render chat templates and encode long texts, at least two for each " +
          "answering thread; the first takes short texts only, the second none above 64 Ki " +
          "characters.",
      ),
    textDeadlineMs: z
      .int()
      .min(1)
      .default(10_000)
      .describe(
        "Longest time that one text may take in a text worker thread; then the thread is stopped.",
      ),
    textQueueMax: z
      .int()
      .min(1)
      .default(4096)
      .describe("Most texts that may wait for a text worker thread."),
    textMemoryBytes: z
      .int()
      .min(64 * 2 ** 20)
      .default(2 ** 30)
      .describe("Most memory of a text worker thread, including its copy of the tokenizer."),
    servedName: z
      .string()
      .nullable()
      .default(null)
      .describe("Model name that clients see and request."),
    engineThread: z
      .boolean()
      .default(true)
      .describe("Run the step loop in a worker thread (off: on the calling thread)."),
    hub: z
      .strictObject({
        revision: z.string().default("main").describe("Branch, tag or commit on the hub."),
        cacheDir: z.string().nullable().default(null).describe("Folder of downloaded models."),
      })
      .prefault({}),
  })
  .refine(({ kvTransfer, kvCache }) => kvTransfer === null || kvCache.prefixCaching, {
    path: ["kvTransfer"],
    error: "needs kvCache.prefixCaching, by which blocks of other engines are found",
  })
  .refine(({ dtype, quantization }) => quantization === "none" || dtype !== "float32", {
    path: ["dtype"],
    error:
      "must be auto or bfloat16 with quantization int8, which keeps the other weights in bfloat16",
  })
  .readonly();
/** Validated, defaults filled in. */
export type EngineOptions = z.output<typeof EngineOptions>;
/** Options as callers pass them. */
export type LoadOptions = z.input<typeof EngineOptions>;

/** Checks and completes load options. Throws INVALID_ARGUMENT naming the field. */
export function parseEngineOptions(options: LoadOptions): EngineOptions {
  const result = EngineOptions.safeParse(options, { error: issueText });
  if (result.success) return result.data;
  throw invalidSetting(result.error, options, fieldNames(EngineOptions));
}
