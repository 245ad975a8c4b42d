/** Made-up requests, as data: what a fleet is asked, and when. */

/** Who says a part of a conversation. */
export type PieceRole = "system" | "user" | "assistant" | "tool";

/** A part of a prompt. */
export interface TrafficPiece {
  readonly role: PieceRole;
  /** Two whole numbers that name its contents: equal names, equal tokens. Null: an answer. */
  readonly name: readonly [number, number] | null;
  readonly tokens: number;
  /** Of an answer: the request that it answers. */
  readonly answerOf?: string;
}

/** A request. Plain data; its tokens are made when they are due (`promptOf`). */
export interface TrafficRequest {
  readonly id: string;
  /** When it comes; of a request that follows another, when it comes if answers are on time. */
  readonly atMs: number;
  /** The request whose answer it waits for; null: none. */
  readonly after: string | null;
  /** From the end of that answer to this request. */
  readonly thinkMs: number;
  /** Requests of one conversation; null: it is alone. */
  readonly session: string | null;
  readonly pieces: readonly TrafficPiece[];
  /** Of all pieces together. */
  readonly promptTokens: number;
  readonly outputTokens: number;
}

/** Requests by their times. */
export interface Traffic {
  readonly name: string;
  readonly requests: readonly TrafficRequest[];
}

/** The tokens of a list of pieces. */
export function tokensIn(pieces: readonly TrafficPiece[]): number {
  return pieces.reduce((sum, { tokens }) => sum + tokens, 0);
}

/** Traffic of these requests: those of one time keep their order. */
export function trafficOf(name: string, requests: readonly TrafficRequest[]): Traffic {
  const inOrder = requests.map((request, place) => ({ request, place }));
  inOrder.sort((a, b) => a.request.atMs - b.request.atMs || a.place - b.place);
  return { name, requests: inOrder.map(({ request }) => request) };
}

/** What traffic is made of. */
export interface TrafficSummary {
  readonly requests: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Prompt tokens for each output token. */
  readonly inputPerOutput: number;
  /** Of the last arrival. */
  readonly endMs: number;
}

export function summaryOf({ requests }: Traffic): TrafficSummary {
  const promptTokens = requests.reduce((sum, request) => sum + request.promptTokens, 0);
  const outputTokens = requests.reduce((sum, request) => sum + request.outputTokens, 0);
  return {
    ...{ requests: requests.length, promptTokens, outputTokens },
    inputPerOutput: promptTokens / Math.max(1, outputTokens),
    endMs: requests.at(-1)?.atMs ?? 0,
  };
}
