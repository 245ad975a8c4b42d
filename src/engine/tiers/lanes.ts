/** Runs a bounded number of tasks at a time, and tasks with one key in the order of arrival. */

/** At most `width` tasks at a time; the others wait in line. */
export class Lanes {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(width: number) {
    this.#free = width;
  }

  /** Runs `task` as soon as there is a lane for it, and settles as it does. */
  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await task();
    } finally {
      // The task that has waited longest takes over the lane.
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    }
  }
}

/** Tasks with one key run one after the other; tasks with different keys are independent. */
export class KeyedOrder {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Runs `task`, which must not reject, after all earlier ones with `key`. */
  run<T>(key: string, task: () => Promise<T>): Promise<T> {
    const earlier = this.#last.get(key);
    const result = earlier === undefined ? task() : earlier.then(task);
    const settled = result.then(() => {
      if (this.#last.get(key) === settled) this.#last.delete(key);
    });
    this.#last.set(key, settled);
    return result;
  }

  /** Settles when nothing is under way any more. */
  async idle(): Promise<void> {
    while (this.#last.size > 0) await Promise.all(this.#last.values());
  }
}

/** Runs `task` for every item, at most `width` at a time. */
export async function forEachOf<T>(
  items: Iterable<T>,
  width: number,
  task: (item: T) => Promise<void>,
): Promise<void> {
  const iterator = items[Symbol.iterator]();
  const runner = async () => {
    for (let next = iterator.next(); next.done !== true; next = iterator.next()) {
      await task(next.value);
    }
  };
  await Promise.all(Array.from({ length: width }, runner));
}
