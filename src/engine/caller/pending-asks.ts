import type { RequestKey } from "#engine/protocol";

interface Pending<Answer> {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** Questions of one kind to the engine, each of which gets one answer. */
export class PendingAsks<Answer> {
  readonly #pending = new Map<RequestKey, Pending<Answer>>();

  get size(): number {
    return this.#pending.size;
  }

  keys(): Iterable<RequestKey> {
    return this.#pending.keys();
  }

  /** `post` sends the question. */
  ask(key: RequestKey, post: () => void): Promise<Answer> {
    return new Promise<Answer>((resolve, reject) => {
      this.#pending.set(key, { resolve, reject });
      post();
    });
  }

  /** No effect where the question is another's, or was answered. */
  answer(key: RequestKey, answer: Answer): void {
    this.#pending.get(key)?.resolve(answer);
    this.#pending.delete(key);
  }

  fail(key: RequestKey, error: unknown): void {
    this.#pending.get(key)?.reject(error);
    this.#pending.delete(key);
  }
}
