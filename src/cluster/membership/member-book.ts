import type { Member, MembershipListener, ToldRole, WorkerInfo } from "#cluster/protocol";

/** The members that are known, and those who are told of changes. */
export class MemberBook {
  readonly #workers = new Map<string, Member>();
  readonly #listeners = new Set<MembershipListener>();

  /** By id. */
  get workers(): ReadonlyMap<string, Member> {
    return this.#workers;
  }

  /** Returns a function that removes the listener. */
  listen(listener: MembershipListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Records what is known of a worker now. One of a new epoch leaves and joins [CL41]. Of two roles
   * the one that came to it later holds: what announces it may be late [CL213].
   */
  put(told: Member): void {
    const { id, epoch } = told.info;
    const known = this.#workers.get(id);
    if (known !== undefined && known.info.epoch !== epoch) {
      this.drop(id, "it started anew");
      this.put(told);
      return;
    }
    const member = known === undefined ? told : withLaterRole(told, known.info);
    if (known !== undefined && isSame(known, member)) return;
    this.#workers.set(id, member);
    const event = known === undefined ? "joined" : "changed";
    for (const listener of [...this.#listeners]) listener[event](member);
  }

  /** No effect on a worker that is not known, or started anew. */
  learnRole(id: string, { epoch, role, roleEpoch }: ToldRole): void {
    const known = this.#workers.get(id);
    if (known === undefined || known.info.epoch !== epoch) return;
    if (roleEpoch <= (known.info.roleEpoch ?? 0)) return;
    this.put({ ...known, info: { ...known.info, role, roleEpoch } });
  }

  /** Forgets a worker; no effect on one that is not known. */
  drop(id: string, reason: string): void {
    if (!this.#workers.delete(id)) return;
    for (const listener of [...this.#listeners]) listener.left(id, reason);
  }

  /** Tells no listener any more. What was known stays. */
  close(): void {
    this.#listeners.clear();
  }
}

function withLaterRole(told: Member, { role, roleEpoch = 0 }: WorkerInfo): Member {
  if (role === undefined || (told.info.roleEpoch ?? 0) >= roleEpoch) return told;
  return { ...told, info: { ...told.info, role, roleEpoch } };
}

function isSame(known: Member, member: Member): boolean {
  return known.state === member.state && JSON.stringify(known.info) === JSON.stringify(member.info);
}
