import { z } from "zod";

/** How much a step computes, how many sequences run, and in which order they start. */
export const SchedulerConfig = z
  .strictObject({
    // On a CPU a GEMM of 512 rows already runs at the speed of a larger one, and a step of 512
    // prompt tokens holds up running sequences four times less than one of 2048.
    stepTokensMax: z
      .int()
      .positive()
      .default(512)
      .describe(
        "Most tokens that one step computes: more speeds up prompts, fewer keep streams smooth.",
      ),
    runningSequencesMax: z
      .int()
      .positive()
      .default(256)
      .describe("Most sequences that run and hold KV blocks at a time."),
    waitingSequencesMax: z
      .int()
      .positive()
      .default(1024)
      .describe(
        "Most requests that wait, and most of their samples beyond the first; further " +
          "requests are refused.",
      ),
    longPrefillTokensMax: z
      .int()
      .positive()
      .nullable()
      .default(null)
      .describe("Most prompt tokens of one sequence in a step; null: what the step has room for."),
    // A full batch's step takes a tenth of a second on a CPU: with this it stays below two.
    prefillMsMax: z
      .number()
      .positive()
      .nullable()
      .default(null)
      .describe(
        "Longest time in ms that prompts should add to a step in which sequences decode; the " +
          "rest of a prompt is computed in later steps. null: 50 on a CPU, no limit on a GPU.",
      ),
    chunkedPrefill: z
      .boolean()
      .default(true)
      .describe("Compute prompts in pieces that fit the step; off: each prompt in one step."),
    policy: z
      .enum(["fcfs", "priority"])
      .default("fcfs")
      .describe(
        "Order in which requests start: by arrival (fcfs; their priority is ignored), or by " +
          "priority, smaller first, then arrival. Usually the last in this order is preempted " +
          "first.",
      ),
    preemption: z
      .enum(["auto", "swap", "recompute"])
      .default("auto")
      .describe(
        "What happens to a preempted sequence's blocks: swap to host memory, recompute, or " +
          "the cheaper.",
      ),
    // Each running sequence takes one block next: with fewer left, a resumed sequence is preempted
    // again within a block's worth of steps, and its computation is lost.
    returnHeadroomBlocks: z
      .int()
      .nonnegative()
      .default(1)
      .describe("Blocks that stay available per running sequence when a preempted one returns."),
    contextTokensMax: z
      .int()
      .min(2)
      .nullable()
      .default(null)
      .describe(
        "Most tokens of a sequence, prompt included. LongRoPE uses its short factors if this " +
          "is at most the original context, else its long ones; null: what the model allows.",
      ),
  })
  .refine((config) => config.stepTokensMax >= config.runningSequencesMax, {
    path: ["stepTokensMax"],
    error: "must be at least runningSequencesMax, so that a full decode step fits",
  })
  .refine((config) => config.chunkedPrefill || config.longPrefillTokensMax === null, {
    path: ["longPrefillTokensMax"],
    error: "needs chunkedPrefill",
  })
  .readonly();
/** Validated, defaults filled in. */
export type SchedulerConfig = z.output<typeof SchedulerConfig>;
