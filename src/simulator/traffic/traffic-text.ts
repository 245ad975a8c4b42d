/** Traffic as text: for servers that are asked in words. */
import { type WordToken, wordTokens } from "#engine/mock";
import { promptOf, type TrafficVocabulary } from "./token-rule.ts";
import type { PieceRole, TrafficRequest } from "./traffic.ts";

/** A message of a conversation, as chats have it. Results of tools are users' messages. */
export interface TrafficMessage {
  readonly role: Exclude<PieceRole, "tool">;
  readonly content: string;
}

/** The words of a tokenizer, and their texts. */
export class TrafficWords implements TrafficVocabulary {
  readonly tokenIds: Int32Array;
  readonly #texts: ReadonlyMap<number, string>;

  constructor(words: readonly WordToken[]) {
    this.tokenIds = Int32Array.from(words, ({ id }) => id);
    this.#texts = new Map(words.map(({ id, text }) => [id, text]));
  }

  /** Of a parsed tokenizer.json; null: it has too few words. */
  static of(tokenizerJson: unknown): TrafficWords | null {
    const words = wordTokens(tokenizerJson);
    return words.length === 0 ? null : new TrafficWords(words);
  }

  /** Encoded, it is these tokens again. */
  textOf(tokens: Int32Array): string {
    return Array.from(tokens, (id) => this.#texts.get(id) ?? "").join("");
  }
}

/**
 * A request as a conversation. Neighbours of one role are one message; answers that were heard, by
 * the id of their request, replace the planned ones.
 */
export function messagesOf(
  request: TrafficRequest,
  words: TrafficWords,
  heard: ReadonlyMap<string, string> = new Map(),
): TrafficMessage[] {
  const prompt = promptOf(request, words);
  const messages: { role: TrafficMessage["role"]; content: string }[] = [];
  let at = 0;
  for (const { role: said, tokens, answerOf } of request.pieces) {
    const planned = words.textOf(prompt.subarray(at, at + tokens));
    at += tokens;
    const role = said === "tool" ? "user" : said;
    const content = (answerOf === undefined ? undefined : heard.get(answerOf)) ?? planned;
    const last = messages.at(-1);
    if (last?.role === role) last.content += content;
    else messages.push({ role, content });
  }
  return messages;
}
