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
      .describe("Most tokens one step computes: more shortens prompts, less smooths streams."),
    runningSequencesMax: z
      .int()
      .positive()
      .default(256)
      .describe("Most sequences that hold blocks at a time."),
    waitingSequencesMax: z
      .int()
      .positive()
      .default(1024)
      .describe(
        "Most requests that wait, and most further samples of all; further ones are refused.",
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
        "Longest that prompts should hold up a step in which sequences decode, in ms: what does " +
          "not fit comes in later steps; null: 50 on a CPU, whatever they take on a GPU.",
      ),
    chunkedPrefill: z
      .boolean()
      .default(true)
      .describe("Compute prompts in pieces that fit the step; off: each prompt in one step."),
    policy: z
      .enum(["fcfs", "priority"])
      .default("fcfs")
      .describe("Order of start: by arrival, or by the request's priority, then arrival."),
    preemption: z
      .enum(["auto", "swap", "recompute"])
      .default("auto")
      .describe("How preempted sequences keep their blocks: in host memory, not, or the cheaper."),
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
        "Most tokens of a sequence, prompt included; null: what the model allows. LongRoPE takes " +
          "its short factors where this is at most the original context, else its long ones.",
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
