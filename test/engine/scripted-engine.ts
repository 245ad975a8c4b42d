/** An engine whose forward pass is a script: every token is the one before it plus one. */
import { KvCache, type KvCacheShape } from "#kvcache";
import { meanPooling, RowPool } from "#models";
import {
  GrammarCompiler,
  GrammarOptions,
  type SamplingOptions,
  SamplingParams,
  type TokenCandidates,
} from "#sampling";
import { Scheduler, SchedulerConfig, type StepPlan } from "#scheduler";
import { Engine, type StructuredCompiler } from "../../src/engine/loop/engine.ts";
import type { ItemResult, ModelRunner, StartedStep } from "../../src/engine/loop/model-runner.ts";
import type { SequenceTask } from "../../src/engine/loop/sequence-task.ts";
import type { EngineRequest, StepOutput } from "../../src/engine/protocol/protocol.ts";
import { requestFailure } from "../../src/engine/protocol/wire-error.ts";
import { SlowDisk } from "./slow-disk.ts";

/** What the script does in a step before its results are there. */
export type StepHook = (plan: StepPlan) => void | Promise<void>;

export interface ScriptedOptions {
  readonly blocks?: number;
  readonly blockTokens?: number;
  readonly runningSequencesMax?: number;
  readonly waitingSequencesMax?: number;
  /** Default: 128. */
  readonly contextTokensMax?: number;
  /** Further levels of the cache, and what is reused. */
  readonly cache?: Partial<KvCacheShape>;
  readonly scheduler?: Partial<SchedulerConfig>;
  /** A step starts before the one before is finished. Default: false. */
  readonly overlapSteps?: boolean;
  /** Makes grammars, in place of the real ones. */
  readonly createCompiler?: () => StructuredCompiler;
}

const END = 999;

export class ScriptedEngine implements ModelRunner {
  readonly engine: Engine;
  readonly scheduler: Scheduler;
  readonly cache: KvCache;
  /** Where blocks are moved: host memory at once, the disk when a test says so. */
  readonly disk: SlowDisk;
  /** Replaced by a test that wants a step to wait or throw. */
  duringStep: StepHook = () => {};
  /** The engine's clock; a millisecond more at each look. */
  nowMs = 0;
  #nextKey = 1;

  constructor(options: ScriptedOptions = {}) {
    const { blocks = 64, blockTokens = 4, contextTokensMax = 128, ...rest } = options;
    const { cache: shape, scheduler, overlapSteps = false, createCompiler, ...limits } = rest;
    this.cache = new KvCache({ blocks, blockTokens, ...shape });
    this.disk = new SlowDisk(this.cache);
    const config = SchedulerConfig.parse({ stepTokensMax: 256, ...limits, ...scheduler });
    const estimates = { recomputeMs: () => 1, swapMs: () => 1, loadPays: () => true };
    const { cache } = this;
    const scheduling = { config, cache, contextTokensMax, estimates, overlapSteps };
    this.scheduler = new Scheduler(scheduling);
    this.engine = new Engine({
      scheduler: this.scheduler,
      runner: this,
      memory: this.disk,
      overlapSteps,
      clock: { nowMs: () => this.nowMs++ },
      shape: {
        vocabularySize: 1000,
        eosTokenIds: [END],
        contextTokensMax,
        blockTokens,
        embedding: () => ({
          tokensMax: contextTokensMax,
          newPool: () => new RowPool(2, meanPooling),
        }),
        promptLogprobsMax: 100,
      },
      createCompiler: (vocabulary) =>
        createCompiler?.() ??
        new GrammarCompiler({
          tokens: vocabulary,
          vocabularySize: 1000,
          stopTokenIds: [END],
          options: GrammarOptions.parse({}),
        }),
      onWake: () => {},
    });
  }

  async start(plan: StepPlan, tasks: readonly SequenceTask[]): Promise<StartedStep> {
    const results = this.#resultsOf(plan, tasks);
    for (const [place, { sampling }] of tasks.entries()) {
      try {
        await sampling?.prepare();
      } catch (error) {
        const result = results[place];
        if (result !== undefined) results[place] = { ...result, failure: requestFailure(error) };
      }
    }
    return {
      finish: async () => {
        await this.duringStep(plan);
        return results;
      },
    };
  }

  #resultsOf(plan: StepPlan, tasks: readonly SequenceTask[]): ItemResult[] {
    return plan.items.map(({ sequence, start, count, samples, forkOf }, place) => {
      const beamCandidates = tasks[place]?.beamCandidates ?? 0;
      const { tokens } = sequence;
      // Tokens that are still being drawn are the next numbers.
      const awaited = samples ? Math.max(0, start + count - tokens.length) : 0;
      const last = tokens.get(tokens.length - 1) + awaited;
      const searches = samples && beamCandidates > 0 && forkOf === null;
      return {
        tokenIds: samples && beamCandidates === 0 ? [last + 1] : [],
        logprobs: null,
        candidates: searches ? candidatesBehind(last, beamCandidates) : null,
      };
    });
  }

  /** Queues a prompt; returns its key. */
  add(
    promptTokenIds: readonly number[],
    sampling: SamplingOptions = {},
    more: Partial<Pick<EngineRequest, "retention" | "cacheSalt">> = {},
  ): number {
    const key = this.#nextKey++;
    this.engine.add({
      ...blankRequest,
      ...more,
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

/** The next numbers, each half as likely as the one before. */
function candidatesBehind(last: number, count: number): TokenCandidates {
  return {
    count,
    tokenIds: Int32Array.from({ length: count }, (_, place) => last + 1 + place),
    logprobs: Float32Array.from({ length: count }, (_, place) => -(place + 1) * Math.LN2),
  };
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
