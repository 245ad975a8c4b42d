/** Chats of several turns, behind one of some system prompts. */
import { Conversation } from "./conversation.ts";
import { type Amount, Draws } from "./draws.ts";
import { type Traffic, type TrafficRequest, trafficOf } from "./traffic.ts";

export interface Chats {
  readonly seed: number;
  readonly chats: number;
  /** New chats, Poisson's. */
  readonly perSecond: number;
  readonly systemPrompts: number;
  readonly systemTokens: number;
  /** Mean turns of a chat, which ends by chance. */
  readonly turns: number;
  readonly messageTokens: Amount;
  readonly answerTokens: Amount;
  /** Between an answer and the next message. */
  readonly thinkSeconds: Amount;
  /** A chat ends before it is longer. */
  readonly contextTokensMax: number;
}

export const CHATS: Chats = {
  ...{ seed: 1, chats: 200, perSecond: 1, systemPrompts: 8, systemTokens: 800, turns: 6 },
  messageTokens: { median: 90, spread: 1.2, most: 4000 },
  answerTokens: { median: 220, spread: 0.8, most: 2000 },
  thinkSeconds: { median: 20, spread: 1, most: 300 },
  contextTokensMax: 32_000,
};

const SYSTEM_NAMES = 4;
const MESSAGE_NAMES = 5;

export function chats(settings: Partial<Chats> = {}): Traffic {
  const all = { ...CHATS, ...settings };
  const draws = new Draws(all.seed);
  const requests: TrafficRequest[] = [];
  let startMs = 0;
  let messages = 0;
  for (let chat = 0; chat < all.chats; chat++) {
    startMs += draws.gapMs(all.perSecond);
    const conversation = new Conversation(`chat-${chat}`, startMs);
    const system = draws.below(all.systemPrompts);
    conversation.say({ role: "system", name: [system, SYSTEM_NAMES], tokens: all.systemTokens });
    for (let turn = draws.times(all.turns); turn > 0; turn--) {
      const tokens = draws.tokens(all.messageTokens);
      conversation.say({ role: "user", name: [messages++, MESSAGE_NAMES], tokens });
      const outputTokens = draws.tokens(all.answerTokens);
      const thinkMs = draws.amount(all.thinkSeconds) * 1000;
      if (conversation.promptTokens + outputTokens > all.contextTokensMax) break;
      requests.push(conversation.ask({ outputTokens, thinkMs }));
    }
  }
  return trafficOf("chats", requests);
}
