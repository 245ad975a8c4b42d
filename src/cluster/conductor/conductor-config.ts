import { z } from "zod";

/** How prefill instances are chosen; the first is the default. */
export const PREFILL_POLICIES = ["global", "local", "load", "random"] as const;
export type PrefillPolicyName = (typeof PREFILL_POLICIES)[number];

/** When requests that would miss a deadline are rejected. */
export const REJECTION_MODES = ["none", "late", "arrival", "predicted"] as const;
export type RejectionMode = (typeof REJECTION_MODES)[number];

/** Classes of requests, the most urgent first. */
export const PRIORITY_CLASSES = ["high", "normal", "batch"] as const;
export type PriorityClass = (typeof PRIORITY_CLASSES)[number];

const ms = () => z.number().positive().max(1e9).nullable().default(null);
const load = (fallback: number) => z.number().positive().max(1e6).default(fallback);

/** How the conductor decides. */
export const ConductorConfig = z
  .strictObject({
    policy: z
      .enum(PREFILL_POLICIES)
      .default("global")
      .describe(
        "How the prefill instance is chosen: global (best prefix anywhere, moved where that is " +
          "quicker), local (its own prefix), load (its queue alone), random.",
      ),
    // The paper's threshold is not published. Simulated on its conversations, times to the first
    // token are flat between 1 and 5.
    balancingThreshold: z
      .number()
      .min(1)
      .max(1e6)
      .default(1.3)
      .describe(
        "A prefix is moved where the best one is more than this many times as long as the own.",
      ),
    estimatesTransfers: z
      .boolean()
      .default(true)
      .describe("Move a prefix only where that is quicker than computing it, by estimate."),
    transferTime: z
      .enum(["added", "overlapped"])
      .default("added")
      .describe(
        "How a move counts in the time to the first token: added to the queue's time, as " +
          "Algorithm 1 does, or beside it.",
      ),
    rejection: z
      .enum(REJECTION_MODES)
      .default("predicted")
      .describe(
        "When a request is rejected that would miss a deadline: none; late (decoding is looked " +
          "at when the prompt is computed); arrival (at the load of now); predicted (at the load " +
          "of when its prompt will be computed).",
      ),
    ttftDeadlineMs: ms().describe("Deadline of the first token; none: nothing is rejected for it."),
    tbtDeadlineMs: ms().describe("Deadline between tokens; none: nothing is rejected for it."),
    loadLimits: z
      .strictObject({
        high: load(1).describe("Most load, in deadlines, at which urgent requests are taken."),
        normal: load(1).describe("The same for others; less leaves room for urgent ones."),
        batch: load(0.5).describe("The same for work that fills what is free."),
      })
      .prefault({}),
    decodeMs: z
      .number()
      .positive()
      .max(1e9)
      .default(10_000)
      .describe("How long a request decodes, until that is measured; used by predictions."),
    outputTokens: z
      .int()
      .positive()
      .max(1e9)
      .default(256)
      .describe("Output tokens of a usual request, until that is measured."),
  })
  .readonly();
/** Validated, defaults filled in. */
export type ConductorConfig = z.output<typeof ConductorConfig>;
