/** An engine whose steps are executed by a script: every token is the one before it plus one. */
import { TREE_NODES_MAX } from "#base";
import { KvCache, type KvCacheShape } from "#kvcache";
import { meanPooling, RowPool } from "#models";
import {
  BatchWriter,
  GrammarCompiler,
  GrammarOptions,
  type SamplingOptions,
  SamplingParams,
} from "#sampling";
import { Scheduler, SchedulerConfig } from "#scheduler";
import { CommandBuilder } from "../../src/engine/loop/command-builder.ts";
import { CommandRunner } from "../../src/engine/loop/command-runner.ts";
import { Engine, type EngineParts, type StructuredCompiler } from "../../src/engine/loop/engine.ts";
import type { ModelRunner, StartedStep, StepWork } from "../../src/engine/loop/model-runner.ts";
import type { SequenceDrafter } from "../../src/engine/loop/sequence-drafter.ts";
import type { StepExecutor } from "../../src/engine/loop/step-executor.ts";
import type { EngineRequest, StepOutput } from "../../src/engine/protocol/protocol.ts";
import { ScriptedExecutor, type StepHook } from "./scripted-executor.ts";
import { SlowDisk } from "./slow-disk.ts";

export interface ScriptedOptions {
  readonly blocks?: number;
  readonly blockTokens?: number;
  readonly runningSequencesMax?: number;
  readonly waitingSequencesMax?: number;
  /** Default: 128. */
  readonly contextTokensMax?: number;
  /** Of `CommandLimits`. */
  readonly rereadTokensMax?: number;
  /** Further levels of the cache, and what is reused. */
  readonly cache?: Partial<KvCacheShape>;
  readonly scheduler?: Partial<SchedulerConfig>;
  /** A step starts before the one before is finished. Default: false. */
  readonly overlapSteps?: boolean;
  /** Of `EngineParts`. */
  readonly stepsAheadMax?: number;
  /** What stands between the engine and the script. Default: nothing. */
  readonly wrap?: (script: StepExecutor) => StepExecutor;
  /** Of `EngineParts`, and of its `shape`. */
  readonly draftPolicy?: EngineParts["draftPolicy"];
  readonly makeDrafter?: () => SequenceDrafter;
  /** Rows that a step can sample. Default: one per sequence. */
  readonly sampledRowsMax?: number;
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
  readonly #script: ScriptedExecutor;
  readonly #runner: CommandRunner;
  /** The engine's clock; a millisecond more at each look. */
  nowMs = 0;
  #nextKey = 1;

  constructor(options: ScriptedOptions = {}) {
    const { blocks = 64, blockTokens = 4, contextTokensMax = 128, ...rest } = options;
    const { cache: shape, scheduler, overlapSteps = false, createCompiler, wrap, ...other } = rest;
    const { stepsAheadMax, ...more } = other;
    const {
      rereadTokensMax = 0,
      draftPolicy = null,
      makeDrafter,
      sampledRowsMax,
      ...limits
    } = more;
    this.cache = new KvCache({ blocks, blockTokens, ...shape });
    this.disk = new SlowDisk(this.cache);
    const config = SchedulerConfig.parse({ stepTokensMax: 256, ...limits, ...scheduler });
    const estimates = { recomputeMs: () => 1, swapMs: () => 1, loadPays: () => true };
    const { cache } = this;
    const scheduling = { config, cache, contextTokensMax, estimates, overlapSteps };
    this.scheduler = new Scheduler({ ...scheduling, ...(sampledRowsMax && { sampledRowsMax }) });
    this.#script = new ScriptedExecutor(this.disk);
    const { stepTokensMax, runningSequencesMax: sequencesMax } = config;
    this.#runner = new CommandRunner({
      executor: wrap?.(this.#script) ?? this.#script,
      builder: new CommandBuilder({
        ...{ stepTokensMax, sequencesMax, blockTokens, groups: cache.groupCount },
        blocksPerSequenceMax: Math.ceil(contextTokensMax / blockTokens),
        treeTokensMax: TREE_NODES_MAX,
        rereadTokensMax,
      }),
      writer: new BatchWriter({ rowsMax: sampledRowsMax ?? sequencesMax, vocabularySize: 1000 }),
    });
    this.engine = new Engine({
      scheduler: this.scheduler,
      runner: this,
      memory: this.disk,
      overlapSteps,
      ...(stepsAheadMax !== undefined && { stepsAheadMax }),
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
        treePathMax: TREE_NODES_MAX,
        ...(makeDrafter && { makeDrafter }),
      },
      draftPolicy,
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

  /** Replaced by a test that wants a step to wait or throw. */
  set duringStep(hook: StepHook) {
    this.#script.duringStep = hook;
  }

  start(work: StepWork): Promise<StartedStep> {
    return this.#runner.start(work);
  }

  /** Queues a prompt; returns its key. */
  add(
    promptTokenIds: readonly number[],
    sampling: SamplingOptions = {},
    more: Partial<
      Pick<EngineRequest, "retention" | "cacheSalt" | "draftShape" | "computesOnly">
    > = {},
  ): number {
    const key = this.#nextKey++;
    this.engine.add({
      ...blankRequest,
      ...more,
      key,
      promptTokenIds: Int32Array.from(promptTokenIds),
      params: SamplingParams.parse(sampling),
    });
    return key;
  }

  addEmbedding(promptTokenIds: readonly number[]): number {
    const key = this.#nextKey++;
    this.engine.addEmbedding({ key, promptTokenIds: Int32Array.from(promptTokenIds) });
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
  draftShape: null,
  predictedTokenIds: null,
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
