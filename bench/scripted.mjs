/**
 * The real scheduler and cache without a model: requests of given lengths, whose tokens are made
 * up, and whose beams go on as a script says.
 */
import { KvCache } from "../dist/kvcache/index.js";
import {
  NO_STOP_RULES,
  Scheduler,
  SchedulerConfig,
  Sequence,
  SequenceGroup,
  sequenceId,
} from "../dist/scheduler/index.js";

const LENGTH_END = { reason: "length", stopReason: null };

/**
 * One made-up server. Prompts are all different, and nothing is kept for later requests, so blocks
 * are shared within a request alone.
 */
export class ScriptedServer {
  #cache;
  #scheduler;
  /** Requests that have not ended: group, and for beams how far the script is. */
  #active = new Set();
  #ids = 0;
  #nowMs = 0;
  #token = 0;

  /** What the newest step computed, and requests that have ended since they were asked for. */
  #computed = { sequences: 0, promptTokens: 0 };
  #ended = [];

  constructor({ blockTokens, poolBlocks, sequencesMax, contextTokensMax, waitingMax }) {
    this.#cache = new KvCache({ blocks: poolBlocks, blockTokens, prefixCaching: false });
    const config = SchedulerConfig.parse({
      stepTokensMax: Math.max(2048, 2 * sequencesMax),
      runningSequencesMax: sequencesMax,
      waitingSequencesMax: waitingMax ?? sequencesMax,
      preemption: "recompute",
    });
    this.#scheduler = new Scheduler({ config, cache: this.#cache, contextTokensMax });
  }

  get activeRequests() {
    return this.#active.size;
  }

  get computed() {
    return this.#computed;
  }

  takeEnded() {
    return this.#ended.splice(0);
  }

  get preemptions() {
    return this.#scheduler.stats().preemptions;
  }

  /**
   * Queues a request of `width` sequences, all of one length. With `choices` they are beams:
   * choices[step] lists the beam that each beam of the next step continues. Returns its id.
   */
  add({ promptTokens, outputTokens }, width, choices = null) {
    const promptTokenIds = Int32Array.from({ length: promptTokens }, () => this.#nextToken());
    const requestId = `request-${this.#ids}`;
    const sequences = Array.from(
      { length: width },
      () =>
        new Sequence({
          id: sequenceId(this.#ids++),
          requestId,
          promptTokenIds,
          arrivalMs: this.#nowMs,
          stop: { ...NO_STOP_RULES, maxTokens: outputTokens },
        }),
    );
    const kind = choices === null ? "samples" : "beams";
    const group = new SequenceGroup({ requestId, sequences, kind });
    this.#scheduler.add(group);
    this.#active.add({ group, choices, outputTokens, beams: [group.lead], drawn: new Set() });
    return requestId;
  }

  /** One step. Returns what is held while it computes where somebody looks: that costs a scan. */
  step({ look }) {
    const scheduler = this.#scheduler;
    const plan = scheduler.plan();
    scheduler.begin(plan, ++this.#nowMs);
    this.#cache.takeMoves();
    const promptTokens = plan.items.reduce((sum, { count }) => sum + (count > 1 ? count : 0), 0);
    this.#computed = { sequences: plan.items.length, promptTokens };
    const memory = look ? this.#memory() : null;
    const drawn = plan.items.map(({ samples, sequence }) =>
      samples && !sequence.isBeam ? [this.#nextToken()] : null,
    );
    scheduler.commit(plan, drawn, this.#nowMs);
    const sampled = new Set(
      plan.items.flatMap(({ samples, sequence }) => (samples ? [sequence] : [])),
    );
    for (const request of this.#active) {
      if (request.choices !== null) this.#continueBeams(request, sampled);
      if (request.group.live.length > 0) continue;
      this.#active.delete(request);
      this.#ended.push(request.group.requestId);
    }
    return memory;
  }

  /** Beams go on once all of a request's have been computed. */
  #continueBeams(request, sampled) {
    const { group, choices, beams, drawn, outputTokens } = request;
    for (const beam of beams) if (sampled.has(beam)) drawn.add(beam);
    if (drawn.size < beams.length) return;
    drawn.clear();
    const step = group.lead.generatedTokens;
    if (step + 1 >= outputTokens) {
      this.#scheduler.finishGroup(group, LENGTH_END);
      return;
    }
    const next = choiceAt(choices, step).map((parent) => ({
      parent: beams[parent],
      tokenId: this.#nextToken(),
    }));
    request.beams = this.#scheduler.continueBeams(group, next, this.#nowMs);
  }

  /**
   * Blocks that are held, blocks that would be held if none were shared, and how many of the held
   * ones' slots have a token: slots of a shared block count once.
   */
  #memory() {
    const { blockTokens } = this.#cache;
    const fills = new Map();
    let unsharedBlocks = 0;
    let running = 0;
    for (const { group } of this.#active) {
      let runs = false;
      for (const { blockTable, computedTokens } of group.sequences) {
        unsharedBlocks += blockTable.length;
        runs ||= blockTable.length > 0;
        for (let index = 0; index < blockTable.length; index++) {
          const fill = Math.min(blockTokens, computedTokens - index * blockTokens);
          const block = blockTable.get(index);
          fills.set(block, Math.max(fills.get(block) ?? 0, fill));
        }
      }
      if (runs) running++;
    }
    const filledSlots = [...fills.values()].reduce((sum, fill) => sum + fill, 0);
    return { heldBlocks: fills.size, unsharedBlocks, filledSlots, running };
  }

  #nextToken() {
    this.#token = (this.#token + 1) & 0x3fffffff;
    return this.#token;
  }
}

/** Searches that are longer than what was recorded go on as its second half did, over and over. */
function choiceAt(choices, step) {
  if (step < choices.length) return choices[step];
  const half = choices.length >> 1;
  return choices[half + ((step - half) % (choices.length - half))];
}
