import { z } from "zod";
import { invalidSetting, issueText } from "#base";
import { ConductorConfig } from "#cluster";

const count = (most: number) => z.int().positive().max(most);

/** A fleet with pools, as a file describes it. */
export const FleetConfig = z
  .strictObject({
    prefillNodes: count(1000).default(8).describe("Nodes that compute prompts."),
    decodeNodes: count(1000).default(8).describe("Nodes that decode."),
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
    sequencesMax: count(1e6).default(256).describe("Most requests that one node decodes."),
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
