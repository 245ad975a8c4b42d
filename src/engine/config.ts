import { z } from "zod";
import { invalidSetting, issueText } from "#base";
import { EVICTION_POLICIES } from "#kvcache";
import { SchedulerConfig } from "#scheduler";

const byteCount = z.int().positive();

/** The pool of keys and values: its size, its blocks, and what it forgets first. */
export const KvCacheOptions = z
  .strictObject({
    blockTokens: z.int().min(1).max(512).default(16).describe("Tokens per block, a power of two."),
    poolBytes: byteCount
      .nullable()
      .default(null)
      .describe("Memory for keys and values; null: a share of what is free, at most 1 GiB."),
    dtype: z
      .enum(["auto", "float32", "float16", "bfloat16"])
      .default("auto")
      .describe("Format of keys and values; auto: float32 with float32 weights, else bfloat16."),
    prefixCaching: z.boolean().default(true).describe("Reuse blocks of equal prefixes."),
    evictionPolicy: z
      .enum(EVICTION_POLICIES)
      .default("lru")
      .describe("Which cached block is forgotten first; compare them with perigee replay."),
  })
  .refine((options) => (options.blockTokens & (options.blockTokens - 1)) === 0, {
    path: ["blockTokens"],
    error: "must be a power of two",
  });

/** How a model is loaded and run. CLI flags and `LLM.load` options are made from this. */
export const EngineOptions = z
  .strictObject({
    device: z
      .enum(["auto", "cpu", "reference"])
      .default("auto")
      .describe("Where the model runs; auto: the fastest that this machine has."),
    dtype: z
      .enum(["auto", "float32", "bfloat16"])
      .default("auto")
      .describe("Weights; auto: float32 for float32 files, else bfloat16."),
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
    kvCache: KvCacheOptions.prefault({}),
    scheduler: SchedulerConfig.prefault({}),
    chatTemplate: z
      .string()
      .nullable()
      .default(null)
      .describe("Jinja template, or a file with one, instead of the model's."),
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
  .readonly();
/** Validated, defaults filled in. */
export type EngineOptions = z.output<typeof EngineOptions>;
/** What a caller writes. */
export type LoadOptions = z.input<typeof EngineOptions>;

/** Checks and completes load options. Throws INVALID_ARGUMENT naming the field. */
export function parseEngineOptions(options: LoadOptions): EngineOptions {
  const result = EngineOptions.safeParse(options, { error: issueText });
  if (result.success) return result.data;
  throw invalidSetting(result.error, options);
}
