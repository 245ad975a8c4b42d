import type { Member, Membership, MembershipListener, ToldRole } from "#cluster/protocol";
import { MemberBook } from "./member-book.ts";

/**
 * The members of several memberships as one. A worker that is in two of them, as its id or its
 * epoch tells, is taken from the first [CL47].
 */
export class JoinedMembership implements Membership {
  readonly #parts: readonly Membership[];
  readonly #book = new MemberBook();
  readonly #removers: readonly (() => void)[];

  constructor(parts: readonly Membership[]) {
    this.#parts = parts;
    this.#removers = parts.map((part) =>
      part.listen({
        joined: () => this.#sync(),
        changed: () => this.#sync(),
        left: (_id, reason) => this.#sync(reason),
      }),
    );
    this.#sync();
  }

  get workers(): ReadonlyMap<string, Member> {
    return this.#book.workers;
  }

  get heardMs(): number | null {
    const heards = this.#parts.map(({ heardMs }) => heardMs);
    return heards.reduce((a, b) => (a === null || b === null ? null : Math.max(a, b)), 0);
  }

  listen(listener: MembershipListener): () => void {
    return this.#book.listen(listener);
  }

  learnRole(id: string, told: ToldRole): void {
    for (const part of this.#parts) part.learnRole(id, told);
  }

  heard(member: Member): void {
    for (const part of this.#parts) part.heard?.(member);
  }

  async close(): Promise<void> {
    for (const remove of this.#removers) remove();
    this.#book.close();
    await Promise.all(this.#parts.map((part) => part.close()));
  }

  #sync(reason = "it is known by another address"): void {
    const wanted = this.#wanted();
    for (const id of [...this.#book.workers.keys()]) {
      if (!wanted.has(id)) this.#book.drop(id, reason);
    }
    for (const member of wanted.values()) this.#book.put(member);
  }

  #wanted(): ReadonlyMap<string, Member> {
    const wanted = new Map<string, Member>();
    const epochs = new Set<string>();
    for (const part of this.#parts) {
      for (const [id, member] of part.workers) {
        const { kind, epoch } = member.info;
        // Epochs of other engines are made up here, and are not unique.
        const isKnown = kind === "perigee" && epochs.has(epoch);
        if (wanted.has(id) || isKnown) continue;
        wanted.set(id, member);
        epochs.add(epoch);
      }
    }
    return wanted;
  }
}
