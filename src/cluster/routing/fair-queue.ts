/**
 * Entries of one priority, fair between keys by their costs: each key in turn gets a quantum, and
 * is served while its saved quanta cover its next entry. Source: M. Shreedhar, G. Varghese 1995,
 * "Efficient fair queueing using deficit round robin".
 */
export class FairQueue<T extends CostedEntry> {
  readonly #quantum: number;
  /** Keys with entries, in the order of their turns: the first is on turn. */
  readonly #keys = new Map<string, KeyTurn<T>>();

  constructor(quantum: number) {
    this.#quantum = quantum;
  }

  get isEmpty(): boolean {
    return this.#keys.size === 0;
  }

  /** The first of the key on turn; null: there is none. Which is next, `take` decides. */
  first(): T | null {
    for (const turn of this.#keys.values()) return headOf(turn);
    return null;
  }

  add(entry: T): void {
    const turn = this.#keys.get(entry.key) ?? { entries: new Set<T>(), deficit: 0 };
    this.#keys.set(entry.key, turn);
    turn.entries.add(entry);
  }

  /** False: it is not here. */
  remove(entry: T): boolean {
    const turn = this.#keys.get(entry.key);
    if (turn === undefined || !turn.entries.delete(entry)) return false;
    // Who has nothing to send saves nothing.
    if (turn.entries.size === 0) this.#keys.delete(entry.key);
    return true;
  }

  /** Takes the next entry; null: there is none. */
  take(): T | null {
    if (this.#keys.size === 0) return null;
    const served = this.#tryRound() ?? this.#tryAfterWaiting();
    if (served !== null) this.remove(served);
    return served;
  }

  /** One turn of every key. */
  #tryRound(): T | null {
    for (const [key, turn] of [...this.#keys]) {
      const entry = headOf(turn);
      if (entry !== null && entry.cost <= turn.deficit) {
        turn.deficit -= entry.cost;
        return entry;
      }
      turn.deficit += this.#quantum;
      this.#keys.delete(key);
      this.#keys.set(key, turn);
    }
    return null;
  }

  /** As many rounds at once as no key is served in: an entry may cost many quanta. */
  #tryAfterWaiting(): T | null {
    const rounds = [...this.#keys.values()].map((turn) => {
      const missing = (headOf(turn)?.cost ?? 0) - turn.deficit;
      return Math.max(0, Math.ceil(missing / this.#quantum));
    });
    const waited = Math.min(...rounds) * this.#quantum;
    for (const turn of this.#keys.values()) turn.deficit += waited;
    return this.#tryRound();
  }
}

/** What is fair is fair by cost. */
export interface CostedEntry {
  readonly key: string;
  readonly cost: number;
}

interface KeyTurn<T> {
  readonly entries: Set<T>;
  deficit: number;
}

function headOf<T>({ entries }: KeyTurn<T>): T | null {
  for (const entry of entries) return entry;
  return null;
}
