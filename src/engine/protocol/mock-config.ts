/** Settings of a worker without a model. */
import { z } from "zod";
import { invalidSetting, issueText } from "#base";

const factor = z.number().nonnegative();

/** Milliseconds for each unit of a step's work. */
const StepCostConfig = z.strictObject({
  stepMs: factor.describe("Of any step: reading the weights, the host's work."),
  promptTokenMs: factor.describe("Of a prompt token that is computed."),
  promptPairMs: factor.describe("Of a pair of such a token and a position that it sees."),
  decodingMs: factor.describe("Of a sequence that decodes one token."),
  contextTokenMs: factor.describe("Of a token of context that a decoding sequence reads."),
});

/** A measured time, of one step or several, to fit the costs to. */
const CostPointConfig = z.strictObject({
  steps: factor.default(1).describe("Steps together."),
  promptTokens: factor.default(0).describe("Prompt tokens that were computed."),
  promptPairs: factor.default(0).describe("Pairs of these with what they see."),
  decoding: factor.default(0).describe("Sequences that decoded one token."),
  contextTokens: factor.default(0).describe("Tokens of context that these read, all together."),
  ms: z.number().positive().describe("The measured time."),
});

const machine = {
  name: z.string().min(1).max(200).describe("Name of the model and machine."),
  source: z.string().default("").describe("Who measured it, where and how."),
  contextTokensMax: z.int().min(2).describe("Most tokens of a sequence."),
  bytesPerToken: z.int().positive().describe("Keys and values of one token."),
  hostBytesPerMs: z.number().positive().describe("Between host memory and the device."),
  diskBytesPerMs: z.number().positive().describe("Between disk and host memory."),
  poolTokens: z
    .tuple([z.int().positive(), z.int().nonnegative(), z.int().nonnegative()])
    .describe("Tokens that fit on the device, in host memory, on disk."),
  attentionWeight: factor
    .default(0)
    .describe("Work of a token's attention to one position, relative to its other work."),
};

/** A machine's costs, as a step takes them. */
const CostModelConfig = z.strictObject({ ...machine, step: StepCostConfig });

/** A file of costs: the factors, or the points that they are fitted to. */
export const CostFileConfig = z
  .strictObject({
    ...machine,
    step: StepCostConfig.optional(),
    points: z.array(CostPointConfig).min(1).max(10_000).optional(),
  })
  .refine(({ step, points }) => (step === undefined) !== (points === undefined), {
    path: ["step"],
    error: "must be there, or points to fit it to, and not both",
  });
export type CostFileConfig = z.output<typeof CostFileConfig>;

/** Checks a file of costs. Throws INVALID_ARGUMENT naming the field. */
export function parseCostFile(value: unknown): CostFileConfig {
  const result = CostFileConfig.safeParse(value, { error: issueText });
  if (result.success) return result.data;
  throw invalidSetting(result.error, value);
}

/** In place of a model: steps take the time of a cost model, tokens are made up. */
export const MockOptions = z.strictObject({
  costModel: CostModelConfig.describe("How long steps take."),
  speedup: z.number().positive().max(1e6).default(1).describe("So many times as fast."),
  blocks: z
    .tuple([z.int().positive(), z.int().nonnegative(), z.int().nonnegative()])
    .nullable()
    .default(null)
    .describe("Blocks on the device, in host memory, on disk; null: the cost model's."),
  meanOutputTokens: z
    .number()
    .min(1)
    .nullable()
    .default(256)
    .describe("Mean length of outputs that end by themselves; null: none does."),
});
export type MockOptions = z.output<typeof MockOptions>;

/** Mock workers on a command line. */
export const MockWorkerOptions = z
  .strictObject({
    mock: z
      .boolean()
      .default(false)
      .describe(
        "No model: steps take the time of costModel, tokens are made up. Of the model's folder, " +
          "config.json and the tokenizer are used.",
      ),
    costModel: z
      .string()
      .min(1)
      .default("h200-8b")
      .describe("Costs of a mock: h200-8b, cpu-110m, or a JSON file (docs/traffic.md)."),
    speedup: z
      .number()
      .positive()
      .max(1e6)
      .default(1)
      .describe("A mock is so many times as fast as its cost model."),
    mockBlocks: z
      .string()
      .regex(/^[1-9]\d{0,8}(,\d{1,9}){0,2}$/)
      .nullable()
      .default(null)
      .describe(
        "Blocks of a mock on the device, in host memory and on disk, e.g. 20000,40000,0; none: " +
          "those of the cost model.",
      ),
    meanOutputTokens: z
      .number()
      .min(1)
      .nullable()
      .default(256)
      .describe("Mean length of a mock's outputs that end by themselves; none: none does."),
    mockWorkers: z
      .int()
      .min(1)
      .max(1024)
      .default(1)
      .describe(
        "So many mocks in this process, each at an address of its own: ports count up from port.",
      ),
  })
  .readonly();
export type MockWorkerOptions = z.output<typeof MockWorkerOptions>;
