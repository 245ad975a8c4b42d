import type {
  Member,
  Membership,
  MembershipListener,
  ToldRole,
  WorkerInfo,
} from "#cluster/protocol";
import type { Announcer } from "./announcer.ts";
import { MemberBook } from "./member-book.ts";

/** Workers and routers of one process find each other here: for one machine, and for tests. */
export class LocalBus {
  readonly #book = new MemberBook();

  /** A worker joins. One that has its id already is replaced. */
  announce(info: WorkerInfo): Announcer {
    this.#book.put({ info, state: "ready" });
    const isCurrent = () => this.#book.workers.get(info.id)?.info.epoch === info.epoch;
    return {
      drain: async () => {
        if (isCurrent()) this.#book.put({ info, state: "draining" });
      },
      leave: async () => {
        if (isCurrent()) this.#book.drop(info.id, "it left");
      },
    };
  }

  /** A router's view of it. */
  membership(): Membership {
    return new LocalMembership(this.#book);
  }
}

/** The members of a `LocalBus`. */
class LocalMembership implements Membership {
  readonly #book: MemberBook;
  readonly #removers = new Set<() => void>();

  constructor(book: MemberBook) {
    this.#book = book;
  }

  get workers(): ReadonlyMap<string, Member> {
    return this.#book.workers;
  }

  get heardMs(): number {
    return 0;
  }

  listen(listener: MembershipListener): () => void {
    const remove = this.#book.listen(listener);
    this.#removers.add(remove);
    return remove;
  }

  learnRole(id: string, told: ToldRole): void {
    this.#book.learnRole(id, told);
  }

  async close(): Promise<void> {
    for (const remove of this.#removers) remove();
  }
}
