/** A stage of a model behind the first one: its layers, their part of each block, and its steps. */
import { assert, type EngineError } from "#base";
import { openCheckpoint } from "#checkpoint";
import type { Device, HostBlocks, KvPool } from "#devices";
import { DecoderExecutor, PartExecutor } from "#engine/forward";
import {
  HiddenSlots,
  type LoadedStage,
  SLOTS_FD,
  type StageExecutor,
  type StageFacts,
  type StageLoader,
  type StagePlan,
} from "#engine/pipeline";
import { LevelMover } from "#engine/tiers";
import { describeModel, loadDecoderWeights, partOf, randomWeights, warmUp } from "#models";
import { CachePlan } from "./cache-plan.ts";
import { openEngineDevice } from "./engine-device.ts";
import { LoadPhases } from "./load-phases.ts";
import type { LoadContext, Loading } from "./loading.ts";
import { makeSteps, PROMPT_LOGIT_ROWS, type StepParts } from "./make-steps.ts";
import { weightFormatFor } from "./memory-plan.ts";
import { factsOf, openStages, type PipelinePlace } from "./pipeline-stages.ts";

/** How often a stage looks whether its device has computed what was started. */
const LOOK_MS = 1;

/** What a stage has once its weights are loaded. */
interface WeightedStage {
  readonly plan: StagePlan;
  readonly loading: Loading;
  readonly place: PipelinePlace;
  readonly cache: CachePlan;
  readonly parameters: number;
  readonly makeSteps: (contextTokensMax: number) => Promise<StepParts>;
}

/** Loads one stage, in the parts that the one before asks for. */
export class StageLoad implements StageLoader {
  readonly #context: LoadContext;
  #weighted: WeightedStage | null = null;
  #steps: StepParts | null = null;

  constructor(context: Omit<LoadContext, "onBroken">, onBroken: (error: EngineError) => void) {
    this.#context = { ...context, onBroken };
  }

  async weights(plan: StagePlan): Promise<StageFacts> {
    const context = this.#context;
    const { options, path, index } = plan;
    const checkpoint = openCheckpoint(path, { weights: !options.randomWeights });
    const model = describeModel(checkpoint.config);
    assert(model.kind === "decoder", "Cannot load a stage of an encoder");
    const phases = new LoadPhases(context.clock);
    const device = await openEngineDevice(options, context, index);
    phases.watch(device);
    const sources = options.randomWeights ? randomWeights() : checkpoint.tensors;
    const message = { type: "load", path, options } as const;
    const loading = { message, context, phases, checkpoint, sources, device, way: null };
    const place = openStages(loading, model, index);
    assert(place.range !== null, "Cannot load a stage of one");
    const { spec } = partOf(model, place.range);
    const format = weightFormatFor(options, checkpoint, device);
    const weights = await phases.run("weights", () =>
      loadDecoderWeights(device, partOf(model, place.range ?? { first: 0, end: 0 }), {
        ...{ sources, format, onProgress: () => {} },
      }),
    );
    const cache = new CachePlan({
      ...{ device, options, checkpoint, spec: model.spec, range: place.range, format },
      drafter: null,
    });
    checkpoint.close();
    const parts = { spec, weights, plan: cache, drafter: null };
    this.#weighted = {
      ...{ plan, loading, place, cache, parameters: weights.parameters },
      makeSteps: (contextTokensMax) =>
        phases.run("steps", () => makeSteps(loading, { ...parts, contextTokensMax })),
    };
    return await this.#facts();
  }

  async steps(contextTokensMax: number): Promise<StageFacts> {
    const { place, makeSteps } = this.#atWeights;
    place.next?.load({ type: "steps", contextTokensMax });
    this.#steps = await makeSteps(contextTokensMax);
    return await this.#facts();
  }

  async pool(sizes: { readonly blocks: number; readonly hostBlocks: number }) {
    const { plan, loading, place, cache } = this.#atWeights;
    const { device, context } = loading;
    assert(this.#steps !== null, "Cannot allocate blocks before there are steps");
    const { decoder, sampler } = this.#steps;
    const { blocks, hostBlocks } = sizes;
    place.next?.load({ type: "pool", blocks, hostBlocks });
    const pool = device.allocateKvPool({ ...cache.block, blocks });
    const host = hostBlocks > 0 ? device.allocateHostBlocks(pool, hostBlocks) : null;
    await warmUp({ device, decoder, cache: pool, sampled: sampler.tokens });
    const { clock, timer } = context;
    const mover = new LevelMover({
      ...{ device, cache: pool, host, store: null, clock, timer, onFinished: () => {} },
    });
    const memory = {
      carryOut: ({ moves, jobs, peerJobs }: Parameters<StageExecutorMemory["carryOut"]>[0]) =>
        mover.carryOut(moves, jobs, peerJobs),
    };
    const common = { device, decoder, memory, kvCache: pool, clock };
    const executor: StageExecutor =
      place.next === null
        ? new DecoderExecutor({
            ...{ ...common, sampler, tokenMover: null, follower: null },
            promptRowsMax: PROMPT_LOGIT_ROWS,
          })
        : new PartExecutor({ ...common, next: place.next });
    const facts = await this.#facts();
    device.seal();
    const stage: LoadedStage = {
      executor,
      settled: () => settled(loading),
      offer: async () => [],
      endOffer: () => {},
      close: async () => {
        await mover.drain();
        release(device, [pool, host]);
      },
    };
    return { facts, stage, slots: new HiddenSlots(SLOTS_FD, plan.slots) };
  }

  async close(): Promise<void> {
    if (this.#weighted === null) return;
    const { place, loading } = this.#weighted;
    await place.next?.close();
    loading.device.dispose();
  }

  get #atWeights(): WeightedStage {
    assert(this.#weighted !== null, "Cannot go on before weights are loaded");
    return this.#weighted;
  }

  async #facts(): Promise<StageFacts> {
    const { cache, place, parameters, loading } = this.#atWeights;
    const { description: device } = loading.device;
    return await factsOf({ blocks: cache.blocks(), parameters, device }, place);
  }
}

type StageExecutorMemory = ConstructorParameters<typeof PartExecutor>[0]["memory"];

/** Waits until the device has computed all that was started; this thread does other work. */
async function settled({ device, context }: Loading): Promise<void> {
  const mark = device.markOps();
  while (!mark.isDone()) {
    await new Promise<void>((resolve) => context.timer.after(LOOK_MS, resolve));
  }
}

function release(device: Device, [pool, host]: readonly [KvPool, HostBlocks | null]): void {
  device.release(pool);
  if (host !== null) device.release(host);
}
