/** The nodes of a fleet with pools, and where conductor, index and network know them. */
import type { Conductor, FleetIndex, InstanceRole } from "#cluster";
import type { SimClock } from "../sim-clock.ts";
import { CoupledNode, type CoupledRules } from "./coupled-node.ts";
import { DecodeNode } from "./decode-node.ts";
import type { HotBlocks } from "./hot-blocks.ts";
import type { Network } from "./network.ts";
import type { PoolOptions } from "./pool-options.ts";
import { PrefillLine } from "./prefill-line.ts";
import { PrefillNode } from "./prefill-node.ts";

export interface PoolNodesParts {
  readonly options: PoolOptions;
  readonly clock: SimClock;
  readonly conductor: Conductor;
  readonly index: FleetIndex;
  readonly network: Network;
  readonly hot: HotBlocks;
}

const CHUNK_TOKENS = 2048;
const SEQUENCES_MAX = 256;
const COUPLED: CoupledRules = { stepTokens: 2048, chunkedPrefill: true, prefixCaching: true };

/** Nodes by the conductor's number; the numbers of network and index are the same. */
export class PoolNodes {
  readonly prefill: PrefillNode[] = [];
  /** The line of each of them. */
  readonly lines: PrefillLine[] = [];
  readonly decode = new Map<number, DecodeNode>();
  readonly coupled = new Map<number, CoupledNode>();
  readonly #prefilling = new Set<number>();
  readonly #parts: PoolNodesParts;

  constructor(parts: PoolNodesParts) {
    this.#parts = parts;
    const { coupledNodes = 0, prefillNodes, decodeNodes } = parts.options;
    for (let at = 0; at < coupledNodes; at++) this.#addCoupled(at);
    if (coupledNodes > 0) return;
    for (let at = 0; at < prefillNodes; at++) this.#addPrefill(at);
    for (let at = 0; at < decodeNodes; at++) this.#addDecode(at);
  }

  /** Nodes that decode, whatever else they do. */
  get decoders(): readonly (DecodeNode | CoupledNode)[] {
    return [...this.decode.values(), ...this.coupled.values()];
  }

  /** Steps that ended without an event of their own. */
  get stepsPassed(): number {
    let steps = 0;
    for (const { stepsPassed } of this.decode.values()) steps += stepsPassed;
    return steps;
  }

  /** Numbers of the nodes that compute prompts. */
  get prefilling(): readonly number[] {
    return [...this.#prefilling, ...this.coupled.keys()];
  }

  /** A node of a pool does the other work from now on; what it has goes on. */
  change(number: number, role: "prefill" | "decode"): void {
    this.#parts.conductor.setRole(number, role);
    if (role === "decode") {
      this.#prefilling.delete(number);
      if (!this.decode.has(number)) this.#makeDecode(number);
      return;
    }
    this.#prefilling.add(number);
    if (this.prefill[number] === undefined) this.#makePrefill(number);
  }

  #addPrefill(at: number): void {
    // Its memory as a decode node is that of its device, if it becomes one.
    const { deviceTokens } = this.#parts.options.costs;
    const number = this.#join(`prefill-${at}`, "prefill", deviceTokens);
    this.#parts.index.join({ announces: true });
    this.#prefilling.add(number);
    this.#makePrefill(number);
  }

  #makePrefill(number: number): void {
    const { options, clock, index, hot } = this.#parts;
    const { costs, trace, chunkTokens = CHUNK_TOKENS, pipelineStages: stages = 1 } = options;
    const node = new PrefillNode({
      ...{ clock, costs, blockTokens: trace.blockTokens, chunkTokens, stages },
      onChanges: (changes) => {
        hot.apply(changes);
        index.apply(number, changes);
      },
    });
    this.prefill[number] = node;
    this.lines[number] = new PrefillLine(clock, node);
  }

  #addDecode(at: number): void {
    const { options, index } = this.#parts;
    const number = this.#join(`decode-${at}`, "decode", options.costs.deviceTokens);
    // It announces nothing before it computes prompts; the numbers of both are the same.
    index.join({ announces: true });
    this.#makeDecode(number);
  }

  #makeDecode(number: number): void {
    const { options, clock, conductor } = this.#parts;
    const { costs, trace, sequencesMax = SEQUENCES_MAX } = options;
    const estimator = conductor.decodeEstimator();
    const node = new DecodeNode({
      ...{ clock, costs, blockTokens: trace.blockTokens, sequencesMax },
      contextTokensMax: costs.deviceTokens,
      onReport: (step) => estimator.measured(step),
    });
    this.decode.set(number, node);
  }

  #addCoupled(at: number): void {
    const { options, clock, index } = this.#parts;
    const { costs, trace, sequencesMax = SEQUENCES_MAX, coupled = COUPLED } = options;
    const number = this.#join(`coupled-${at}`, "both", costs.deviceTokens);
    // What it has is not announced: it is chosen by its load.
    index.join({ announces: false });
    const { blockTokens } = trace;
    this.coupled.set(
      number,
      new CoupledNode({ clock, costs, blockTokens, sequencesMax, rules: coupled }),
    );
  }

  #join(id: string, role: InstanceRole, kvTokens: number): number {
    const { options, network, conductor } = this.#parts;
    const { networkBytesPerMs } = options.costs;
    network.addEnd({ bytesPerMs: networkBytesPerMs });
    return conductor.join({ id, role, kvTokens, networkBytesPerMs });
  }
}
