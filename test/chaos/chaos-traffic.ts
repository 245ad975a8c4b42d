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

const SCHEMA = {
  type: "object",
  properties: { rule: { type: "string", maxLength: 12 }, number: { type: "integer" } },
  required: ["rule", "number"],
  additionalProperties: false,
};

/** What is asked of pools besides: long prompts, several, grammars, penalties, probabilities. */
export function pooledRequests(model: string, count: number, below: Dice): ChaosRequest[] {
  return chaosRequests(model, count, below).map(({ path, body }, at) => {
    const fields = { ...pooledFields(below), ...(at % 8 === 0 && { prompt_logprobs: 1 }) };
    const isLong = below(3) > 0;
    const text = isLong ? ` Of matter ${at} we say: ${words(40 + below(160), below)}.` : "";
    if (path === "/v1/chat/completions") {
      const messages = [{ role: "user", content: `What of number ${at}?${text}` }];
      const asked = "logprobs" in fields && { logprobs: true, top_logprobs: 2 };
      return { path, body: { ...body, ...fields, ...asked, messages } };
    }
    const prompt = `${body.prompt}${text}`;
    const prompts = below(5) > 0 ? prompt : [prompt, `${prompt} And`, `Number ${at}`];
    return { path, body: { ...body, ...fields, prompt: prompts } };
  });
}

function pooledFields(below: Dice): Readonly<Record<string, unknown>> {
  const format = { type: "json_schema", json_schema: { name: "rule", schema: SCHEMA } };
  return [
    {},
    { logprobs: 2 },
    { response_format: format, ignore_eos: false, max_tokens: 60 },
    { frequency_penalty: 0.7, presence_penalty: -0.3 },
    { repetition_penalty: 1.2 },
    { n: 2, temperature: 0.8, logprobs: 1 },
  ][below(6)] as Readonly<Record<string, unknown>>;
}

/** Made-up words, so that no two long texts are alike. */
function words(count: number, below: Dice): string {
  const nouns = [
    "house",
    "river",
    "stone",
    "lamp",
    "road",
    "bell",
    "king",
    "boat",
    "winter",
    "hand",
  ];
  return Array.from({ length: count }, () => nouns[below(nouns.length)]).join(" ");
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
