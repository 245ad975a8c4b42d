import { z } from "zod";
import { invalidSetting, issueText } from "#base";
import { BLOCK_HASH_ALGORITHMS, EVICTION_POLICIES, OFFLOAD_PRIORITY_MIN } from "#kvcache";
import { GrammarOptions } from "#sampling";
import { SchedulerConfig } from "#scheduler";

const byteCount = z.int().positive();

/** The KV cache: its pool, blocks, eviction, further levels and events. */
export const KvCacheOptions = z
  .strictObject({
    blockTokens: z.int().min(1).max(512).default(16).describe("Tokens per block, a power of two."),
    poolBytes: byteCount
      .nullable()
      .default(null)
      .describe(
        "Memory for keys and values; null: a share of what is free, at most 1 GiB but on a GPU.",
      ),
    dtype: z
      .enum(["auto", "float32", "float16", "bfloat16", "int8", "fp8"])
      .default("auto")
      .describe(
        "Format of keys and values; auto: float32 with float32 weights, else bfloat16; " +
          "int8 and fp8 take half the memory of bfloat16.",
      ),
    prefixCaching: z.boolean().default(true).describe("Reuse blocks of equal prefixes."),
    partialReuse: z
      .boolean()
      .default(true)
      .describe("Reuse the start of a block, too, where prompts part inside it."),
    copyOnPartialReuse: z
      .boolean()
      .default(true)
      .describe(
        "Copy such a block where somebody else needs it; off: reuse it only where nobody does.",
      ),
    evictionPolicy: z
      .enum(EVICTION_POLICIES)
      .default("priority")
      .describe("Which cached block is forgotten first; compare them with perigee replay."),
    attentionWindow: z
      .int()
      .positive()
      .nullable()
      .default(null)
      .describe("Most positions that a token sees, on every layer; null: what the model says."),
    attentionSinks: z
      .int()
      .nonnegative()
      .default(0)
      .describe(
        "First positions that stay visible within attentionWindow (StreamingLLM); " +
          "contextTokensMax may then be larger than the model's.",
      ),
    hostCacheBytes: z
      .int()
      .nonnegative()
      .default(0)
      .describe("Host memory for blocks that the device has no room for; 0: none."),
    diskCacheBytes: z
      .int()
      .nonnegative()
      .default(0)
      .describe(
        "Disk space for blocks that host memory has no room for; 0: none. Without " +
          "hostCacheBytes, 64 MiB of host memory are what blocks pass through.",
      ),
    diskCacheDir: z
      .string()
      .nullable()
      .default(null)
      .describe("Folder of blocks on disk; they are found again after a restart."),
    offloadPriorityMin: z
      .int()
      .min(0)
      .max(101)
      .default(OFFLOAD_PRIORITY_MIN)
      .describe("Blocks of a lower retention priority are forgotten, not moved to host memory."),
    onboard: z
      .enum(["auto", "always"])
      .default("auto")
      .describe(
        "Fetch stored blocks from host memory and disk where that is measured to be quicker than " +
          "computing them, or always.",
      ),
    hashAlgorithm: z
      .enum(BLOCK_HASH_ALGORITHMS)
      .default("v1_block_key")
      .describe("Rule by which events name blocks: TensorRT-LLM's or vLLM's."),
    eventBufferMax: z
      .int()
      .nonnegative()
      .default(10_000)
      .describe("KV events kept for readers; 0: the cache tells nothing."),
  })
  .refine((options) => (options.blockTokens & (options.blockTokens - 1)) === 0, {
    path: ["blockTokens"],
    error: "must be a power of two",
  })
  .refine((options) => options.diskCacheBytes === 0 || options.diskCacheDir !== null, {
    path: ["diskCacheDir"],
    error: "must name a folder where diskCacheBytes is set",
  })
  .refine((options) => options.attentionSinks === 0 || options.attentionWindow !== null, {
    path: ["attentionSinks"],
    error: "needs attentionWindow",
  })
  .refine(
    ({ attentionSinks, attentionWindow }) =>
      attentionWindow === null || attentionSinks < attentionWindow,
    { path: ["attentionSinks"], error: "must be less than attentionWindow" },
  );

/** Where the cuda device finds libraries and keeps compiled kernels, and how it runs steps. */
export const CudaOptions = z.strictObject({
  home: z
    .string()
    .nullable()
    .default(null)
    .describe("Folder of the CUDA toolkit; null: the system's loader and /usr/local know."),
  pythonRoots: z
    .array(z.string())
    .nullable()
    .default(null)
    .describe("Python environments with NVIDIA's packages; null: the user's and the system's."),
  cacheFolder: z
    .string()
    .nullable()
    .default(null)
    .describe("Folder of compiled GPU kernels; null: .cache/perigee/kernels of the user."),
  graphs: z
    .boolean()
    .default(true)
    .describe("Capture decoding steps in CUDA graphs (off: launch every kernel by itself)."),
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
        "Weights; auto: float32 for float32 files on a processor, else bfloat16; with " +
          "quantization, those that are not quantised.",
      ),
    randomWeights: z
      .boolean()
      .default(false)
      .describe(
        "Make weights up, always the same: for benchmarks of a model of which a config.json is " +
          "all there is.",
      ),
    quantization: z
      .enum(["none", "int8"])
      .default("none")
      .describe("Quantise weights at load: int8 with a scale per row group."),
    threads: z
      .int()
      .min(1)
      .max(1024)
      .nullable()
      .default(null)
      .describe("CPU threads; null: one per physical core."),
    isa: z
      .enum(["avx2", "avx512", "neon"])
      .nullable()
      .default(null)
      .describe("CPU instruction set; null: the best found."),
    gpuMemoryUtilization: z
      .number()
      .gt(0)
      .max(1)
      .default(0.9)
      .describe(
        "Share of the GPU's whole memory that may be in use, by whomever: what weights, steps " +
          "and other processes leave of it is for keys and values; poolBytes sets that in bytes.",
      ),
    overlapSteps: z
      .boolean()
      .nullable()
      .default(null)
      .describe("Start a step while the one before still runs; null: where the device can."),
    cuda: CudaOptions.prefault({}),
    kvCache: KvCacheOptions.prefault({}),
    scheduler: SchedulerConfig.prefault({}),
    promptLogprobsMax: z
      .int()
      .positive()
      .default(262_144)
      .describe(
        "Most log-probabilities of a prompt in one request: its tokens times those of each.",
      ),
    // Ordinary readers lag by the tokens of one step.
    unreadTokensMax: z
      .int()
      .positive()
      .default(256)
      .describe(
        "Tokens of a streamed sequence that may wait for its reader; then the request pauses.",
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
      .describe("Longest that one text may keep such a thread; then it is stopped."),
    textQueueMax: z.int().min(1).default(4096).describe("Texts that may wait for such a thread."),
    textMemoryBytes: z
      .int()
      .min(64 * 2 ** 20)
      .default(2 ** 30)
      .describe("Most memory of such a thread, with its copy of the tokenizer."),
    servedName: z.string().nullable().default(null).describe("Name of the model for clients."),
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
  .refine(({ dtype, quantization }) => quantization === "none" || dtype !== "float32", {
    path: ["dtype"],
    error: "must be auto or bfloat16 where quantization is int8, which keeps the rest in bfloat16",
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
  throw invalidSetting(result.error, options);
}
