/** Kept responses as an answering thread sees them: the main thread has them. */
import type { ResponseStore, StoredTurn } from "../openai/responses/response-store.ts";

/** What a thread asks of the main thread's store. */
export type ResponsesAsk =
  | { readonly op: "conversation"; readonly owner: string; readonly id: string }
  | { readonly op: "keep"; readonly turn: StoredTurn };

/** Turns, or null where there are none; of `keep` null. */
export type ResponsesReply = readonly StoredTurn[] | null;

/** Does what is asked, on the main thread. */
export async function answerResponses(
  store: ResponseStore,
  ask: ResponsesAsk,
): Promise<ResponsesReply> {
  if (ask.op === "conversation") return await store.conversation(ask.owner, ask.id);
  await store.keep(ask.turn);
  return null;
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

  conversation(owner: string, id: string): Promise<readonly StoredTurn[] | null> {
    return this.#ask({ op: "conversation", owner, id });
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
