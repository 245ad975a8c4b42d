/**
 * Groups of requests behind one system prompt each: what shared prefixes are worth to a fleet whose
 * memory holds them all, or not. The default sizes are those of llm-d's published comparison: 150
 * groups of 5, 6,000 tokens of system prompt and 1,200 of question, rates that rise.
 */
import { Draws } from "./draws.ts";
import { type Traffic, type TrafficRequest, tokensIn, trafficOf } from "./traffic.ts";

/** A ladder of arrival rates: each is held for so long. */
export interface RateStep {
  readonly perSecond: number;
  readonly seconds: number;
}

export interface SharedPrompts {
  readonly seed: number;
  readonly groups: number;
  /** Different questions of a group. */
  readonly questions: number;
  readonly systemTokens: number;
  readonly questionTokens: number;
  readonly outputTokens: number;
  readonly rates: readonly RateStep[];
}

export const SHARED_PROMPTS: SharedPrompts = {
  ...{ seed: 1, groups: 150, questions: 5 },
  ...{ systemTokens: 6000, questionTokens: 1200, outputTokens: 1000 },
  rates: [3, 6, 10, 15, 20].map((perSecond) => ({ perSecond, seconds: 30 })),
};

const SYSTEM_NAMES = 2;
const QUESTION_NAMES = 3;

/** Each request is of a group and a question by chance; arrivals are Poisson's. */
export function sharedPrompts(settings: Partial<SharedPrompts> = {}): Traffic {
  const all = { ...SHARED_PROMPTS, ...settings };
  const draws = new Draws(all.seed);
  const requests: TrafficRequest[] = [];
  let startMs = 0;
  for (const { perSecond, seconds } of all.rates) {
    const endMs = startMs + seconds * 1000;
    for (let atMs = startMs + draws.gapMs(perSecond); atMs < endMs; ) {
      requests.push(requestOf(all, draws, { atMs, place: requests.length }));
      atMs += draws.gapMs(perSecond);
    }
    startMs = endMs;
  }
  return trafficOf("shared-prompts", requests);
}

/** Tokens of all different prompts together: what a fleet must hold to miss none. */
export function workingSetTokens(settings: Partial<SharedPrompts> = {}): number {
  const { groups, questions, systemTokens, questionTokens, outputTokens } = {
    ...SHARED_PROMPTS,
    ...settings,
  };
  return groups * (systemTokens + questions * (questionTokens + outputTokens));
}

function requestOf(
  { groups, questions, systemTokens, questionTokens, outputTokens }: SharedPrompts,
  draws: Draws,
  { atMs, place }: { readonly atMs: number; readonly place: number },
): TrafficRequest {
  const group = draws.below(groups);
  const question = group * questions + draws.below(questions);
  const pieces = [
    { role: "system", name: [group, SYSTEM_NAMES], tokens: systemTokens },
    { role: "user", name: [question, QUESTION_NAMES], tokens: questionTokens },
  ] as const;
  return {
    ...{ id: `shared-${place}`, atMs, after: null, thinkMs: 0, session: null },
    ...{ pieces, promptTokens: tokensIn(pieces), outputTokens },
  };
}
