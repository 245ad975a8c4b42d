/** Models whose steps take the time of a cost model and whose tokens are made up. */
import { requireOptions } from "#base";
import { type CostModel, loadCostModel } from "#engine/mock";
import type { LoadOptions } from "#engine/protocol";
import { LLM, type LlmOptions } from "./llm.ts";

/** What stands in for a model. */
export interface MockCosts {
  /** A preset's name, a JSON file, or the costs. Default: `h200-8b`. */
  readonly costModel: string | CostModel | undefined;
  /** So many times as fast. Default: 1. */
  readonly speedup: number | undefined;
  /** Blocks on the device, in host memory, on disk. Default, and null: the cost model's. */
  readonly blocks: readonly [number, number, number] | null | undefined;
  /**
   * Mean length of outputs that end by themselves; null: all end at their limits, so that no end
   * token is among the tokens of a request that ignores it. Default: 256.
   */
  readonly meanOutputTokens: number | null | undefined;
}

/** How a mock is made. Everything else is as with a model: scheduler, cache, text, events. */
export interface MockModelOptions extends Partial<MockCosts>, Omit<LlmOptions, "mock" | "textOf"> {
  /** Folder whose tokenizer and config.json are used. Default: the bundled model's. */
  readonly model?: string;
}

/** Default `stepTokensMax` of mocks: costs of a GPU, which computes prompts in large steps. */
export const MOCK_STEP_TOKENS = 2048;

/** A mock. Throws what `LLM.load` throws, and IO for a cost model that cannot be read. */
export async function startMockModel(options: MockModelOptions = {}): Promise<LLM> {
  return await start(options, null);
}

/**
 * `count` mocks in this process, which share the tokenizer and its threads, and each have a
 * scheduler and a cache of their own.
 */
export async function startMockModels(
  count: number,
  options: MockModelOptions = {},
): Promise<LLM[]> {
  requireOptions(options);
  const { costModel = "h200-8b" } = options;
  const costs = typeof costModel === "string" ? loadCostModel(costModel) : costModel;
  const models: LLM[] = [];
  try {
    while (models.length < count) {
      models.push(await start({ ...options, costModel: costs }, models[0] ?? null));
    }
    return models;
  } catch (error) {
    for (const model of models.reverse()) await model.close();
    throw error;
  }
}

async function start(options: MockModelOptions, textOf: LLM | null): Promise<LLM> {
  requireOptions(options);
  const { model, costModel, speedup, blocks, meanOutputTokens, ...rest } = options;
  return await LLM.load(model, {
    // A mock computes next to nothing: a thread of its own would only take memory.
    engineThread: false,
    ...rest,
    scheduler: { stepTokensMax: MOCK_STEP_TOKENS, ...rest.scheduler },
    mock: mockOptions({ costModel, speedup, blocks, meanOutputTokens }),
    ...(textOf === null ? {} : { textOf }),
  });
}

/** How a mock differs from a model, as `LLM.load` takes it. */
export function mockOptions({
  costModel = "h200-8b",
  speedup,
  blocks,
  meanOutputTokens,
}: Partial<MockCosts>): NonNullable<LoadOptions["mock"]> {
  const costs = typeof costModel === "string" ? loadCostModel(costModel) : costModel;
  const [device, host, disk] = costs.poolTokens;
  const [deviceBlocks, hostBlocks, diskBlocks] = blocks ?? [];
  return {
    costModel: { ...costs, poolTokens: [device, host, disk] },
    ...(speedup === undefined ? {} : { speedup }),
    ...(deviceBlocks === undefined
      ? {}
      : { blocks: [deviceBlocks, hostBlocks ?? 0, diskBlocks ?? 0] }),
    ...(meanOutputTokens === undefined ? {} : { meanOutputTokens }),
  };
}
