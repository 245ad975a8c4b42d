/** What steps of a node take, by what they compute. */
import { type CostModel, pairsOf } from "#engine/mock";

/** A node's costs, in ms and bytes. */
export interface NodeCosts {
  readonly name: string;
  readonly source: string;
  /** Of each prompt, whatever its length. */
  readonly promptMs: number;
  /** Of a step that computes prompts alone. */
  readonly prefillStepMs: number;
  /** Of each computed prompt token, and of its pairs with the tokens that it sees. */
  readonly promptTokenMs: number;
  readonly promptPairMs: number;
  /** Of a step in which sequences decode, of each of them, and of their tokens of context. */
  readonly decodeStepMs: number;
  readonly decodingMs: number;
  readonly contextTokenMs: number;
  /** Keys and values of one token, all layers. */
  readonly bytesPerToken: number;
  /** Between host memory and the device. */
  readonly hostBytesPerMs: number;
  /** From node to node, each way. */
  readonly networkBytesPerMs: number;
  /** Tokens that fit on the device, and those that a prefill node's cache keeps. */
  readonly deviceTokens: number;
  readonly cacheTokens: number;
}

/**
 * LLaMA3-70B on a node of eight A800, fitted to the figures of R. Qin et al. 2025, "Mooncake"
 * (FAST'25): prefill to figure 14 within 10 %, decoding to its times at 8k and 128k and to the
 * latency of batches in figure 2 of the arXiv version, transfers to the 87 GB/s of its engine. The
 * paper prints none of these coefficients.
 */
export const PAPER_COSTS: NodeCosts = {
  name: "a800x8-70b",
  source: "fitted to figures of Mooncake, FAST'25 and arXiv 2407.00079",
  promptMs: 97.6,
  prefillStepMs: 0,
  promptTokenMs: 0.10433,
  // 9.228e-7 ms of n² - p², which is two pairs.
  promptPairMs: 2 * 9.228e-7,
  decodeStepMs: 26.06,
  decodingMs: 0.147,
  contextTokenMs: 3.58e-5,
  // 2 * 80 layers * 1024 * 2 bytes.
  bytesPerToken: 327_680,
  hostBytesPerMs: 100e6,
  networkBytesPerMs: 87e6,
  // 0.9 of 640 GB less 140 GB of weights; 1 TB of host memory.
  deviceTokens: 1_330_000,
  cacheTokens: 3_000_000,
};

/** The costs of a cost model; its pool is a node's cache where nothing else is said. */
export function costsOf(model: CostModel, networkBytesPerMs: number): NodeCosts {
  const { step, poolTokens } = model;
  return {
    name: model.name,
    source: model.source,
    promptMs: 0,
    prefillStepMs: step.stepMs,
    promptTokenMs: step.promptTokenMs,
    promptPairMs: step.promptPairMs,
    decodeStepMs: step.stepMs,
    decodingMs: step.decodingMs,
    contextTokenMs: step.contextTokenMs,
    bytesPerToken: model.bytesPerToken,
    hostBytesPerMs: model.hostBytesPerMs,
    networkBytesPerMs,
    deviceTokens: poolTokens[0],
    cacheTokens: poolTokens[0] + poolTokens[1] + poolTokens[2],
  };
}

/** ms of computing a prompt's tokens from `start` up to `end`, the cost per prompt left out. */
export function promptPartMs(costs: NodeCosts, start: number, end: number): number {
  const count = end - start;
  return costs.promptTokenMs * count + costs.promptPairMs * pairsOf(start, count);
}

/** ms of a step in which sequences decode. */
export function decodeStepMs(costs: NodeCosts, sequences: number, contextTokens: number): number {
  if (sequences === 0) return 0;
  const { decodeStepMs: stepMs, decodingMs, contextTokenMs } = costs;
  return stepMs + decodingMs * sequences + contextTokenMs * contextTokens;
}
