/** What an operator would measure of a node before it serves. */
import type { DecodePoint, PrefillPoint } from "#cluster";
import { decodeStepMs, type NodeCosts, promptPartMs } from "./node-costs.ts";

const LENGTHS = [256, 1024, 4096, 16_384, 65_536, 131_072];

export function prefillPoints(costs: NodeCosts): PrefillPoint[] {
  return LENGTHS.flatMap((promptTokens) =>
    [0, 0.5, 0.9].map((part) => {
      const prefixTokens = Math.floor(part * promptTokens);
      const ms = costs.promptMs + promptPartMs(costs, prefixTokens, promptTokens);
      return { promptTokens, prefixTokens, ms };
    }),
  );
}

export function decodePoints(costs: NodeCosts): DecodePoint[] {
  return [1, 4, 16, 64].flatMap((sequences) =>
    [1024, 8192, 65_536].map((tokens) => {
      const contextTokens = sequences * tokens;
      return { sequences, contextTokens, ms: decodeStepMs(costs, sequences, contextTokens) };
    }),
  );
}
