/** A stage of a model behind the first one: its layers, their part of each block, and its steps. */
import { assert } from "#base";
import { openCheckpoint } from "#checkpoint";
import type { Device, HostBlocks, HostSlots, KvPool } from "#devices";
import { openPeerPort, PeerTraffic, type PortOffer, stagedLink } from "#engine/exchange";
import { DecoderExecutor, PartExecutor, whenDone } from "#engine/forward";
import {
  HiddenSlots,
  type LoadedStage,
  type OfferShape,
  SLOTS_FD,
  type StageFacts,
  type StageLoader,
  type StagePlan,
  type StageServer,
} from "#engine/pipeline";
import type { EngineOptions, StageOffer } from "#engine/protocol";
import { allocateHost, LevelMover, SharedParts } from "#engine/tiers";
import { describeModel, loadDecoderWeights, partOf, randomWeights, warmUp } from "#models";
import { CachePlan } from "./cache-plan.ts";
import { openEngineDevice } from "./engine-device.ts";
import { LoadPhases } from "./load-phases.ts";
import type { LoadContext, Loading } from "./loading.ts";
import { makeSteps, PROMPT_LOGIT_ROWS, type StepParts } from "./make-steps.ts";
import { weightFormatFor } from "./memory-plan.ts";
import { factsOf, openStages, type PipelinePlace } from "./pipeline-stages.ts";
import { IncomingHidden, lastStage, middleStage, openOut } from "./stage-hidden.ts";

/** What a stage has once its weights are loaded. */
interface WeightedStage {
  readonly plan: StagePlan;
  readonly loading: Loading;
  readonly place: PipelinePlace;
  readonly cache: CachePlan;
  readonly parameters: number;
  readonly makeSteps: (contextTokensMax: number) => Promise<StepParts>;
}

/** Where hidden states come from, and go to; null: nowhere, it is the last stage. */
interface HiddenWays {
  readonly incoming: IncomingHidden;
  readonly out: HostSlots | null;
}

/** What a stage tells the one before beside what it is asked. */
export type StageEvents = Pick<StageServer, "broken" | "sent" | "offerEnded">;

/** Loads one stage, in the parts that the one before asks for. */
export class StageLoad implements StageLoader {
  readonly #context: LoadContext;
  #weighted: WeightedStage | null = null;
  #steps: (StepParts & HiddenWays) | null = null;
  readonly #events: StageEvents;
  /** Offers that have not ended, by transfer. */
  readonly #offers = new Map<number, PortOffer>();

  constructor(context: Omit<LoadContext, "onBroken" | "onPeerServed">, events: StageEvents) {
    // What is held for other engines is counted by the first stage, for all of them.
    const onPeerServed = () => {};
    this.#context = { ...context, onPeerServed, onBroken: (error) => events.broken(error) };
    this.#events = events;
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
    const way = await openWay(options, context);
    const loading = { message, context, phases, checkpoint, sources, device, way };
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
    const { plan, place, loading, makeSteps } = this.#atWeights;
    place.next?.load({ type: "steps", contextTokensMax });
    const { device } = loading;
    // Before blocks, which on a GPU take nearly all remaining memory.
    const ways = {
      incoming: new IncomingHidden(device, HiddenSlots.inherit(SLOTS_FD, plan.slots)),
      out: place.next && openOut(device, place.next),
    };
    this.#steps = { ...(await makeSteps(contextTokensMax)), ...ways };
    return await this.#facts();
  }

  async pool(sizes: { readonly blocks: number; readonly hostBlocks: number }) {
    const { loading, place, cache } = this.#atWeights;
    const { device, context } = loading;
    assert(this.#steps !== null, "Cannot allocate blocks before there are steps");
    const { decoder, sampler, incoming, out } = this.#steps;
    const { blocks, hostBlocks } = sizes;
    place.next?.load({ type: "pool", blocks, hostBlocks });
    const pool = device.allocateKvPool({ ...cache.block, blocks });
    const shared = loading.way && new SharedParts(loading.way.traffic);
    const host = hostBlocks > 0 ? allocateHost({ device, pool, blocks: hostBlocks, shared }) : null;
    await warmUp({ device, decoder, cache: pool, sampled: sampler.tokens });
    const { clock, timer } = context;
    const { way } = loading;
    const mover: LevelMover = new LevelMover({
      ...{ device, cache: pool, host, store: null, clock, timer },
      peers: way && stagedLink(way.traffic, place.next),
      onFinished: () => {
        for (const { job, ok } of mover.takeFinishedPeers()) {
          this.#events.sent(job.transfer, job.piece, ok);
        }
      },
    });
    const memory = {
      carryOut: ({ moves, jobs, peerJobs }: Parameters<StageExecutorMemory["carryOut"]>[0]) =>
        mover.carryOut(moves, jobs, peerJobs),
    };
    const common = { device, decoder, memory, kvCache: pool, clock, timer };
    const executor =
      place.next === null || out === null
        ? lastStage(
            new DecoderExecutor({
              ...{ ...common, sampler, tokenMover: null, follower: null },
              promptRowsMax: PROMPT_LOGIT_ROWS,
            }),
            incoming,
            common,
          )
        : middleStage(new PartExecutor({ ...common, next: place.next, out }), incoming);
    const facts = await this.#facts();
    device.seal();
    const stage: LoadedStage = {
      executor,
      times: () => [executor.times, ...(place.next?.times ?? [])],
      settled: () => whenDone(device.markOps(), timer),
      offer: (shape) => this.#offer(shape, pool.bytesPerBlock),
      endOffer: (transfer, reason) => {
        this.#offers.get(transfer)?.fail(reason);
        place.next?.endOffer(transfer, reason);
      },
      close: async () => {
        await way?.port.close();
        await mover.drain();
        shared?.conceal();
        release(device, [pool, host]);
        shared?.release();
      },
    };
    return { facts, stage };
  }

  async close(): Promise<void> {
    if (this.#weighted === null) return;
    const { place, loading } = this.#weighted;
    await place.next?.close();
    loading.device.dispose();
  }

  async #offer(shape: OfferShape, bytes: number): Promise<readonly StageOffer[]> {
    const { loading, place } = this.#atWeights;
    const { way } = loading;
    assert(way !== null, "Cannot offer blocks that do not travel");
    const { transfer, pieces, deadlineMs } = shape;
    const theirs = place.next?.offer(shape) ?? [];
    const offer = way.port.offer({ pieces, pieceBytesMax: bytes, deadlineMs });
    this.#offers.set(transfer, offer);
    way.traffic.startOutgoing(transfer, offer);
    void offer.ended.then(async () => {
      this.#offers.delete(transfer);
      way.traffic.endOutgoing(transfer);
      await place.next?.offersEnded(transfer);
      this.#events.offerEnded(transfer);
    });
    return [{ offer: offer.id, port: way.port.dataPort, bytes }, ...(await theirs)];
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

/** The way of this stage's part of blocks: other engines are told of it by the first stage. */
async function openWay({ kvTransfer }: EngineOptions, { timer }: LoadContext) {
  if (kvTransfer === null) return null;
  const port = await openPeerPort({ ...kvTransfer, port: 0 }, timer);
  return { port, traffic: new PeerTraffic(port) };
}

type StageExecutorMemory = ConstructorParameters<typeof PartExecutor>[0]["memory"];

function release(device: Device, [pool, host]: readonly [KvPool, HostBlocks | null]): void {
  device.release(pool);
  if (host !== null) device.release(host);
}
