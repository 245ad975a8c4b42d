import { z } from "zod";
import { invalidSetting, issueText } from "#base";
import { ConductorConfig } from "#cluster";
import { CACHE_PLACES } from "./pool-options.ts";

const ms = (usual: number) => z.number().positive().max(1e9).default(usual);
const count = (most: number) => z.int().positive().max(most);

/** A fleet with pools, as a file describes it. */
export const FleetConfig = z
  .strictObject({
    prefillNodes: count(1000).default(8).describe("Nodes that compute prompts."),
    decodeNodes: count(1000).default(8).describe("Nodes that decode."),
    coupledNodes: z
      .int()
      .nonnegative()
      .max(1000)
      .default(0)
      .describe("Nodes that compute prompts and decode; above 0 there are no pools."),
    coupled: z
      .strictObject({
        stepTokens: count(1e8).default(2048).describe("Most tokens of a step, decoding included."),
        chunkedPrefill: z.boolean().default(true).describe("Off: each prompt in one step."),
        prefixCaching: z.boolean().default(true).describe("Its device keeps prefixes."),
      })
      .prefault({}),
    cachePlace: z
      .enum(CACHE_PLACES)
      .default("node")
      .describe(
        "Where a prefix lies: on the nodes that computed or fetched it (node), or anywhere in " +
          "the pool, so that each one travels (pool).",
      ),
    costs: z
      .string()
      .min(1)
      .default("paper")
      .describe(
        "What steps take: paper (LLaMA3-70B on eight A800), a preset of perigee worker's " +
          "--cost-model, or a JSON file of one.",
      ),
    networkBytesPerMs: z
      .number()
      .positive()
      .max(1e12)
      .nullable()
      .default(null)
      .describe("Bytes that a node sends and receives per ms; null: the paper's 87 GB/s."),
    cacheTokens: count(1e9)
      .nullable()
      .default(null)
      .describe("Tokens that the cache of a prefill node keeps; null: as the costs say."),
    deviceTokens: count(5e7)
      .nullable()
      .default(null)
      .describe("Tokens that the device of a decode node holds; null: as the costs say."),
    chunkTokens: count(1e8).default(2048).describe("Most prompt tokens of a step."),
    pipelineStages: count(64)
      .default(1)
      .describe(
        "Machines of each prefill node: its layers are spread over them, and chunks of a prompt " +
          "are computed by all at once.",
      ),
    sequencesMax: count(1e6).default(256).describe("Most requests that one node decodes."),
    roleChanges: z
      .strictObject({
        lostMs: ms(3000).describe("Lost service before a role changes, in ms of all requests."),
        cooldownMs: ms(5000).describe("How long no role changes behind a change."),
      })
      .nullable()
      .default(null)
      .describe("Nodes change pools when the load shifts; null: none does."),
    conductor: ConductorConfig.prefault({}),
  })
  .readonly();
export type FleetConfig = z.output<typeof FleetConfig>;

/** Checks a fleet's description. Throws INVALID_ARGUMENT with the field's name and the remedy. */
export function parseFleet(value: unknown): FleetConfig {
  const parsed = FleetConfig.safeParse(value ?? {}, { error: issueText });
  if (parsed.success) return parsed.data;
  throw invalidSetting(parsed.error, value);
}
