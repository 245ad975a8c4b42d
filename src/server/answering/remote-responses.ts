/** Kept responses as an answering thread sees them: the main thread has them. */
import type { ResponseStore, StoredTurn, TooLarge } from "../openai/responses/response-store.ts";

/** What a thread asks of the main thread's store. */
export type ResponsesAsk =
  | {
      readonly op: "conversation";
      readonly owner: string;
      readonly id: string;
      readonly bytesMax: number;
    }
  | { readonly op: "turn"; readonly owner: string; readonly id: string }
  | { readonly op: "keep"; readonly turn: StoredTurn };

/** What the store's method of that name gives; of `keep` null. */
export type ResponsesReply = readonly StoredTurn[] | TooLarge | StoredTurn | null;

/** Does what is asked, on the main thread. */
export async function answerResponses(
  store: ResponseStore,
  ask: ResponsesAsk,
): Promise<ResponsesReply> {
  switch (ask.op) {
    case "conversation":
      return await store.conversation(ask.owner, ask.id, ask.bytesMax);
    case "turn":
      return await store.turn(ask.owner, ask.id);
    case "keep":
      await store.keep(ask.turn);
      return null;
  }
}

/** The store of a thread. */
export class RemoteResponses implements ResponseStore {
  readonly #post: (ask: number, what: ResponsesAsk) => void;
  readonly #waiting = new Map<number, (reply: ResponsesReply) => void>();
  #asks = 0;

  /** `post` sends a question; `receive` takes its answer. */
  constructor(post: (ask: number, what: ResponsesAsk) => void) {
    this.#post = post;
  }

  async conversation(
    owner: string,
    id: string,
    bytesMax: number,
  ): Promise<readonly StoredTurn[] | TooLarge | null> {
    const reply = await this.#ask({ op: "conversation", owner, id, bytesMax });
    return reply as readonly StoredTurn[] | TooLarge | null; // the answer to that question
  }

  async turn(owner: string, id: string): Promise<StoredTurn | null> {
    const reply = await this.#ask({ op: "turn", owner, id });
    return reply as StoredTurn | null; // the answer to that question
  }

  async keep(turn: StoredTurn): Promise<void> {
    await this.#ask({ op: "keep", turn });
  }

  receive(ask: number, reply: ResponsesReply): void {
    this.#waiting.get(ask)?.(reply);
    this.#waiting.delete(ask);
  }

  #ask(what: ResponsesAsk): Promise<ResponsesReply> {
    const ask = ++this.#asks;
    return new Promise((resolve) => {
      this.#waiting.set(ask, resolve);
      this.#post(ask, what);
    });
  }
}
