import { mockOutput } from "#engine/mock";
import { SIM_VOCABULARY } from "../sim-worker.ts";
import type { TrafficPiece, TrafficRequest } from "../traffic/index.ts";

/** Above all that simulated workers make up: contents by name never meet them by chance. */
const FIRST_TOKEN = Math.max(...SIM_VOCABULARY.tokenIds) + 1;
const ANSWERS = { ...SIM_VOCABULARY, endTokenId: null };

/**
 * A request's prompt for simulated workers. Only which tokens are equal matters here, so contents
 * become tokens by a rule that is some twenty times as fast as the published one; answers are those
 * that simulated workers give.
 */
export function fleetPrompt(request: TrafficRequest): Int32Array {
  const prompt = new Int32Array(Math.max(1, request.promptTokens));
  let length = 0;
  for (const piece of request.pieces) {
    fill(prompt, length, piece);
    length += piece.tokens;
  }
  return prompt;
}

function fill(prompt: Int32Array, from: number, { name, tokens }: TrafficPiece): void {
  if (name === null) {
    prompt.set(mockOutput(ANSWERS, prompt.subarray(0, from), { count: tokens }), from);
    return;
  }
  const [a, b] = name;
  const base = Math.imul(a + 1, 0x9e3779b1) ^ Math.imul(b + 1, 0xc2b2ae35);
  for (let at = 0; at < tokens; at++) {
    prompt[from + at] = FIRST_TOKEN + ((base ^ Math.imul(at + 1, 0x85ebca6b)) >>> 2);
  }
}
