/** Indexes of the common fields, then of the fields of each place. */
const DRAINING = 0;
const RUNNING = 1;
const DUTY = 2;
const FIRST_PLACE = 3;
const PLACE_RUNNING = 0;
const PLACE_CONNECTIONS = 1;
const PLACE_ADOPTED = 2;
const PLACE_FIELDS = 3;

/**
 * Counters in memory shared by all threads of a server: server-wide limits have common counters,
 * and an ended thread's running requests can be subtracted. Each place belongs to one thread.
 */
export class SharedPlaces {
  /** The memory, to pass to the other threads. */
  readonly buffer: SharedArrayBuffer;
  readonly #fields: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer;
    this.#fields = new Int32Array(buffer);
  }

  /** Zeroed counters for `places` threads. */
  static create(places: number): SharedPlaces {
    const fields = FIRST_PLACE + places * PLACE_FIELDS;
    return new SharedPlaces(new SharedArrayBuffer(fields * Int32Array.BYTES_PER_ELEMENT));
  }

  /** No more requests are admitted. */
  get draining(): boolean {
    return Atomics.load(this.#fields, DRAINING) === 1;
  }

  startDraining(): void {
    Atomics.store(this.#fields, DRAINING, 1);
  }

  /** What the server does in its fleet, in one number of 31 bits; at the start 0. */
  get duty(): number {
    return Atomics.load(this.#fields, DUTY);
  }

  set duty(value: number) {
    Atomics.store(this.#fields, DUTY, value);
  }

  /** Running requests, in all places. */
  get running(): number {
    return Atomics.load(this.#fields, RUNNING);
  }

  /** Adds a request at `place`, unless `limit` run already; returns the number before. */
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

  /** Counts a connection that is given to `place`; `disconnect` when it has ended. */
  connect(place: number): void {
    Atomics.add(this.#fields, fieldOf(place, PLACE_CONNECTIONS), 1);
  }

  disconnect(place: number): void {
    Atomics.sub(this.#fields, fieldOf(place, PLACE_CONNECTIONS), 1);
  }

  /** Open connections of all places, except those that the main thread keeps. */
  get connections(): number {
    let sum = 0;
    for (let field = FIRST_PLACE; field < this.#fields.length; field += PLACE_FIELDS) {
      sum += Atomics.load(this.#fields, field + PLACE_CONNECTIONS);
    }
    return sum;
  }

  /** Records that the thread at `place` adopts the next descriptor that was given to it. */
  adopt(place: number): void {
    Atomics.add(this.#fields, fieldOf(place, PLACE_ADOPTED), 1);
  }

  /** The number of descriptors that the thread at `place` has adopted. */
  adoptedAt(place: number): number {
    return Atomics.load(this.#fields, fieldOf(place, PLACE_ADOPTED));
  }

  /** The load of a place: open connections plus running requests. */
  loadOf(place: number): number {
    const connections = Atomics.load(this.#fields, fieldOf(place, PLACE_CONNECTIONS));
    return connections + Atomics.load(this.#fields, fieldOf(place, PLACE_RUNNING));
  }

  /** Resets `place` after its thread ended, with its running requests. */
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
