/** Fields that all threads share, and fields of each. */
const DRAINING = 0;
const RUNNING = 1;
const FIRST_PLACE = 2;
const PLACE_RUNNING = 0;
const PLACE_CONNECTIONS = 1;
const PLACE_ADOPTED = 2;
const PLACE_FIELDS = 3;

/**
 * Counters in memory that all threads of a server see: what limits the server as a whole is counted
 * once, and what a thread had in work is known when it is gone. A place is one thread's.
 */
export class SharedPlaces {
  /** To be handed to the other threads. */
  readonly buffer: SharedArrayBuffer;
  readonly #fields: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer;
    this.#fields = new Int32Array(buffer);
  }

  /** Zeros, for so many threads. */
  static create(places: number): SharedPlaces {
    const fields = FIRST_PLACE + places * PLACE_FIELDS;
    return new SharedPlaces(new SharedArrayBuffer(fields * Int32Array.BYTES_PER_ELEMENT));
  }

  /** No more requests are taken. */
  get draining(): boolean {
    return Atomics.load(this.#fields, DRAINING) === 1;
  }

  startDraining(): void {
    Atomics.store(this.#fields, DRAINING, 1);
  }

  /** Requests in work, in all places. */
  get running(): number {
    return Atomics.load(this.#fields, RUNNING);
  }

  /** One request more at `place`, unless there are `limit`; gives how many there were before. */
  enter(place: number, limit: number): number {
    const before = Atomics.add(this.#fields, RUNNING, 1);
    if (before >= limit) Atomics.sub(this.#fields, RUNNING, 1);
    else Atomics.add(this.#fields, fieldOf(place, PLACE_RUNNING), 1);
    return before;
  }

  leave(place: number): void {
    Atomics.sub(this.#fields, fieldOf(place, PLACE_RUNNING), 1);
    Atomics.sub(this.#fields, RUNNING, 1);
  }

  /** A connection is given to `place`, or has ended there. */
  connect(place: number): void {
    Atomics.add(this.#fields, fieldOf(place, PLACE_CONNECTIONS), 1);
  }

  disconnect(place: number): void {
    Atomics.sub(this.#fields, fieldOf(place, PLACE_CONNECTIONS), 1);
  }

  /** Open ones of all places, but for those of the thread that gives them. */
  get connections(): number {
    let sum = 0;
    for (let field = FIRST_PLACE; field < this.#fields.length; field += PLACE_FIELDS) {
      sum += Atomics.load(this.#fields, field + PLACE_CONNECTIONS);
    }
    return sum;
  }

  /** The thread at `place` takes over the descriptor that was given to it next. */
  adopt(place: number): void {
    Atomics.add(this.#fields, fieldOf(place, PLACE_ADOPTED), 1);
  }

  /** How many descriptors the thread at `place` has taken over. */
  adoptedAt(place: number): number {
    return Atomics.load(this.#fields, fieldOf(place, PLACE_ADOPTED));
  }

  /** How busy a place is: open connections, those with a request in work twice. */
  loadOf(place: number): number {
    const connections = Atomics.load(this.#fields, fieldOf(place, PLACE_CONNECTIONS));
    return connections + Atomics.load(this.#fields, fieldOf(place, PLACE_RUNNING));
  }

  /** The thread at `place` is gone, and what it had in work with it. */
  clear(place: number): void {
    const running = Atomics.exchange(this.#fields, fieldOf(place, PLACE_RUNNING), 0);
    Atomics.sub(this.#fields, RUNNING, running);
    Atomics.store(this.#fields, fieldOf(place, PLACE_CONNECTIONS), 0);
    Atomics.store(this.#fields, fieldOf(place, PLACE_ADOPTED), 0);
  }
}

function fieldOf(place: number, field: number): number {
  return FIRST_PLACE + place * PLACE_FIELDS + field;
}
