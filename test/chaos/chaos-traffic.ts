/** Requests of many kinds with their right answers, as an undisturbed worker gives them. */
import { type Answer, type ChaosRequest, listen } from "./chaos-request.ts";

export interface KnownRequest {
  readonly request: ChaosRequest;
  readonly right: Answer;
}

const DEADLINE_MS = 120_000;
const AT_ONCE = 4;

/** Numbers below a limit; equal seeds draw equal ones. */
export type Dice = (limit: number) => number;

export function dice(seed: number): Dice {
  let state = seed >>> 0;
  return (limit) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0;
    return Math.floor((((state ^ (state >>> 13)) >>> 0) / 2 ** 32) * limit);
  };
}

/** Requests of all kinds, which share a few beginnings. */
export function chaosRequests(model: string, count: number, below: Dice): ChaosRequest[] {
  return Array.from({ length: count }, (_, at) => {
    const topic = `This is rule ${below(6)} of the house, to be known by all who work here. `;
    const beginning = topic.repeat(2 + below(12));
    const common = {
      ...{ model, seed: below(1e9), max_tokens: 4 + below(60), ignore_eos: true },
      ...(below(4) === 0 ? { temperature: 0 } : { temperature: 1, n: [1, 1, 1, 2, 3][below(5)] }),
      ...(below(8) === 0 && { presence_penalty: 0.5 }),
      ...(below(3) > 0 && { stream: true, stream_options: { include_usage: true } }),
    };
    if (below(2) === 0) {
      const body = { ...common, prompt: `${beginning}Number ${at} is` };
      return { path: "/v1/completions", body };
    }
    const messages = [
      { role: "system", content: beginning },
      { role: "user", content: `What of number ${at}?` },
    ];
    return { path: "/v1/chat/completions", body: { ...common, messages } };
  });
}

/** Asks `url`, which nothing disturbs. Throws where it does not answer all of them. */
export async function knownRequests(
  url: string,
  requests: readonly ChaosRequest[],
): Promise<KnownRequest[]> {
  const known: KnownRequest[] = [];
  let next = 0;
  const ask = async () => {
    for (let at = next++; at < requests.length; at = next++) {
      const request = requests[at];
      if (request === undefined) return;
      const heard = await listen(url, request, { deadlineMs: DEADLINE_MS, leaveAfterMs: null });
      if (heard.kind !== "answered") throw new Error(`No answer: ${JSON.stringify(heard)}`);
      known.push({ request, right: heard.answer });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, ask));
  return known;
}
