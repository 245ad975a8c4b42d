import { z } from "zod";

/** A model over several processes of one machine, each with some of its layers. */
export const PipelineOptions = z.strictObject({
  stages: z
    .int()
    .min(1)
    .max(64)
    .default(1)
    .describe(
      "Processes that the model's layers are spread over: chunks of a long prompt are computed " +
        "by all of them at once. On GPUs each takes one, in the order in which they are visible.",
    ),
  chunkTokens: z
    .int()
    .positive()
    .default(2048)
    .describe("Most tokens of a step of several stages, in place of stepTokensMax."),
  shareGpus: z
    .boolean()
    .default(false)
    .describe(
      "Stages share GPUs where fewer are visible: to try them out, since it is no faster. Give " +
        "kvCache.poolBytes then: a stage does not know what others on its GPU will take.",
    ),
  timeoutMs: z
    .int()
    .min(1000)
    .max(2 ** 31 - 1)
    .default(120_000)
    .describe(
      "A stage that has work and says nothing for so long is given up, and the worker ends; a " +
        "step of one stage must take less.",
    ),
});

/** Whether the model's layers are in several processes. */
export function isPipelined({ pipeline }: { pipeline: z.output<typeof PipelineOptions> }): boolean {
  return pipeline.stages > 1;
}
