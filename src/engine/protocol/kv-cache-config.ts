import { z } from "zod";
import { BLOCK_HASH_ALGORITHMS, EVICTION_POLICIES, OFFLOAD_PRIORITY_MIN } from "#kvcache";

/** Memory that there must be some of. */
export const byteCount = z.int().positive();

/** The KV cache: its pool, blocks, eviction, further levels and events. */
export const KvCacheOptions = z
  .strictObject({
    blockTokens: z.int().min(1).max(512).default(16).describe("Tokens per block, a power of two."),
    poolBytes: byteCount
      .nullable()
      .default(null)
      .describe(
        "Memory for keys and values; null: a share of the free memory, at most 1 GiB except " +
          "on a GPU.",
      ),
    dtype: z
      .enum(["auto", "float32", "float16", "bfloat16", "int8", "fp8"])
      .default("auto")
      .describe(
        "Format of keys and values; auto: float32 with float32 weights, else bfloat16; " +
          "int8 and fp8 take half the memory of bfloat16.",
      ),
    prefixCaching: z
      .boolean()
      .default(true)
      .describe("Reuse the KV blocks of equal prompt prefixes."),
    partialReuse: z
      .boolean()
      .default(true)
      .describe("Also reuse the beginning of a block when two prompts diverge inside it."),
    copyOnPartialReuse: z
      .boolean()
      .default(true)
      .describe(
        "Copy a partly reused block that a sequence holds or other blocks continue; off: do " +
          "not reuse it.",
      ),
    evictionPolicy: z
      .enum(EVICTION_POLICIES)
      .default("priority")
      .describe("Which cached block is evicted first; perigee replay compares the policies."),
    attentionWindow: z
      .int()
      .positive()
      .nullable()
      .default(null)
      .describe(
        "Most positions that a token attends to, in every layer; null: the model's own windows.",
      ),
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
      .describe("Host memory for KV blocks that do not fit on the device; 0: none."),
    diskCacheBytes: z
      .int()
      .nonnegative()
      .default(0)
      .describe(
        "Disk space for KV blocks that do not fit in host memory; 0: none. Without " +
          "hostCacheBytes, blocks pass through 64 MiB of host memory.",
      ),
    diskCacheDir: z
      .string()
      .nullable()
      .default(null)
      .describe("Folder for KV blocks on disk; they can be reused after a restart."),
    shutdownFlushMs: z
      .int()
      .nonnegative()
      .max(3_600_000)
      .default(5000)
      .describe(
        "Most ms at the end in which blocks that are only on the device or in host memory are " +
          "written to disk, where there is a disk level; 0: they are lost.",
      ),
    offloadPriorityMin: z
      .int()
      .min(0)
      .max(101)
      .default(OFFLOAD_PRIORITY_MIN)
      .describe(
        "Blocks with a lower retention priority than this are discarded when evicted, not " +
          "moved to host memory.",
      ),
    onboard: z
      .enum(["auto", "always"])
      .default("auto")
      .describe(
        "Load stored blocks from host memory and disk where that is measured to be faster " +
          "than computing them (auto), or always.",
      ),
    hashAlgorithm: z
      .enum(BLOCK_HASH_ALGORITHMS)
      .default("v1_block_key")
      .describe(
        "How the hashes that identify blocks in KV events are computed: as TensorRT-LLM does, or " +
          "as vLLM does with the same setting and PYTHONHASHSEED=0.",
      ),
    eventBufferMax: z
      .int()
      .nonnegative()
      .default(10_000)
      .describe("Most KV events kept for readers; 0: none are recorded."),
  })
  .refine((options) => (options.blockTokens & (options.blockTokens - 1)) === 0, {
    path: ["blockTokens"],
    error: "must be a power of two",
  })
  .refine((options) => options.diskCacheBytes === 0 || options.diskCacheDir !== null, {
    path: ["diskCacheDir"],
    error: "must name a folder when diskCacheBytes is set",
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
