/** The last values of some quantities over time, in rings that never grow. */
export class Series {
  readonly #length: number;
  readonly #columns: Float64Array[];
  #count = 0;

  /** `columns` quantities, `length` values of each. */
  constructor(columns: number, length: number) {
    this.#length = length;
    this.#columns = Array.from({ length: columns }, () =>
      new Float64Array(length).fill(Number.NaN),
    );
  }

  /** Values kept. */
  get size(): number {
    return Math.min(this.#count, this.#length);
  }

  /** A value of each quantity; NaN: a gap. */
  push(...values: readonly number[]): void {
    const at = this.#count % this.#length;
    this.#columns.forEach((column, place) => {
      column[at] = values[place] ?? Number.NaN;
    });
    this.#count++;
  }

  /** One quantity, the oldest value first. */
  column(place: number): number[] {
    const column = this.#columns[place];
    if (column === undefined) return [];
    const start = this.#count <= this.#length ? 0 : this.#count % this.#length;
    const values: number[] = [];
    for (let turn = 0; turn < this.size; turn++) {
      values.push(column[(start + turn) % this.#length] ?? Number.NaN);
    }
    return values;
  }

  /** The newest value of one quantity; NaN: none. */
  last(place: number): number {
    if (this.#count === 0) return Number.NaN;
    return this.#columns[place]?.[(this.#count - 1) % this.#length] ?? Number.NaN;
  }

  clear(): void {
    this.#count = 0;
    for (const column of this.#columns) column.fill(Number.NaN);
  }
}
