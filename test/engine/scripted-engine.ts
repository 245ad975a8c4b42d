/** An engine whose forward pass is a script: every token is the one before it plus one. */
import { KvCache } from "#kvcache";
import { GrammarCompiler, type SamplingOptions, SamplingParams } from "#sampling";
import { Scheduler, SchedulerConfig, type StepPlan } from "#scheduler";
import { Engine } from "../../src/engine/engine.ts";
import type { ItemResult, ModelRunner } from "../../src/engine/model-runner.ts";
import type { EngineRequest, StepOutput } from "../../src/engine/protocol.ts";

/** What the script does in a step before its results are there. */
export type StepHook = (plan: StepPlan) => void | Promise<void>;

export interface ScriptedOptions {
  readonly blocks?: number;
  readonly blockTokens?: number;
  readonly runningSequencesMax?: number;
  readonly waitingSequencesMax?: number;
}

const END = 999;

export class ScriptedEngine implements ModelRunner {
  readonly engine: Engine;
  readonly scheduler: Scheduler;
  /** Replaced by a test that wants a step to wait or throw. */
  duringStep: StepHook = () => {};
  #nowMs = 0;
  #nextKey = 1;

  constructor(options: ScriptedOptions = {}) {
    const { blocks = 64, blockTokens = 4, ...limits } = options;
    const config = SchedulerConfig.parse({ stepTokensMax: 256, ...limits });
    const cache = new KvCache({ blocks, blockTokens, prefixCaching: true });
    this.scheduler = new Scheduler({ config, cache, contextTokensMax: 128 });
    this.engine = new Engine({
      scheduler: this.scheduler,
      runner: this,
      memory: null,
      clock: { nowMs: () => this.#nowMs++ },
      shape: {
        vocabularySize: 1000,
        hiddenSize: 2,
        eosTokenIds: [END],
        contextTokensMax: 128,
        blockTokens,
      },
      createCompiler: (vocabulary) =>
        new GrammarCompiler({ ...vocabulary, vocabularySize: 1000, stopTokenIds: [END] }),
      onWake: () => {},
    });
  }

  async run(plan: StepPlan): Promise<ItemResult[]> {
    await this.duringStep(plan);
    return plan.items.map(({ sequence, samples }) => {
      const last = sequence.tokens.get(sequence.tokens.length - 1);
      return { tokenIds: samples ? [last + 1] : [], logprobs: null, candidates: null };
    });
  }

  /** Queues a prompt; returns its key. */
  add(promptTokenIds: readonly number[], sampling: SamplingOptions = {}): number {
    const key = this.#nextKey++;
    this.engine.add({
      ...blankRequest,
      key,
      promptTokenIds,
      params: SamplingParams.parse(sampling),
    });
    return key;
  }

  addEmbedding(promptTokenIds: readonly number[]): number {
    const key = this.#nextKey++;
    this.engine.addEmbedding({ key, promptTokenIds });
    return key;
  }

  /** Steps until there is nothing to do; the books are checked after each. */
  async drain(stepsMax = 100): Promise<StepOutput[]> {
    const steps: StepOutput[] = [];
    for (;;) {
      const step = await this.engine.step();
      this.scheduler.audit();
      if (step === null) return steps;
      steps.push(step);
      if (steps.length > stepsMax) throw new Error("The engine does not come to an end");
    }
  }
}

const blankRequest: Omit<EngineRequest, "key" | "promptTokenIds" | "params"> = {
  requestId: "request",
  seed: 0n,
  cacheSalt: null,
  retention: null,
  priority: 0,
  badWordTokenIds: [],
  thinking: null,
  promptLogits: false,
};

/** Tokens by request key and sequence, in order. */
export function tokensOf(steps: readonly StepOutput[]): Record<string, number[]> {
  const tokens: Record<string, number[]> = {};
  for (const { key, index, tokenIds } of steps.flatMap(({ outputs }) => outputs)) {
    const name = `${key}.${index}`;
    tokens[name] = [...(tokens[name] ?? []), ...tokenIds];
  }
  return tokens;
}
