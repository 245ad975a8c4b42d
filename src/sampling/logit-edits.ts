import { assert } from "#base";
import type { RowEdits } from "./sampling-batch.ts";
import type { TokenHistory } from "./token-history.ts";

const firstCapacity = 1024;
const entriesMaxDefault = 1 << 18;

/** Entries after which a row is the last of its part: see `SamplerOptions`. */
export function editEntriesMax(options: {
  readonly rowsMax: number;
  readonly vocabularySize: number;
  readonly editEntriesMax?: number;
}): number {
  const { rowsMax, vocabularySize, editEntriesMax = entriesMaxDefault } = options;
  return Math.min(editEntriesMax, (rowsMax - 1) * vocabularySize);
}

/** Copy of `array` with at least `length` elements. */
function grown<A extends Int32Array | Float32Array>(
  array: A,
  length: number,
  make: (n: number) => A,
): A {
  const copy = make(Math.max(length, 2 * array.length));
  copy.set(array);
  return copy;
}

/**
 * The sparse edits of a batch's logits, in the layout of `AdjustLogitsInput`. Filled row by row;
 * several edits of one token become one entry. R rows, V vocabulary.
 */
export class LogitEdits {
  /** [R + 1] running sum: row r owns entries starts[r] up to starts[r + 1]. */
  readonly starts: Int32Array;
  /** [R], one when the row's words of `allowed` apply. */
  readonly allowedRows: Int32Array;
  /** [R, ceil(V / 32)], bit set = allowed. */
  readonly allowed: Uint32Array;
  /** [R] each. */
  readonly repetition: Float32Array;
  readonly frequency: Float32Array;
  readonly presence: Float32Array;
  readonly wordsPerRow: number;
  #tokens = new Int32Array(firstCapacity);
  #biases = new Float32Array(firstCapacity);
  #counts = new Int32Array(firstCapacity);
  /** [V]: index of a token's entry, valid when it lies in the current row. */
  readonly #entryOf: Int32Array;
  /** Entries before this one are in `#entryOf`; the others are added on demand. */
  #indexed = 0;
  #rows = 0;
  #entries = 0;
  #masked = 0;

  constructor(rowsMax: number, vocabularySize: number) {
    this.wordsPerRow = Math.ceil(vocabularySize / 32);
    this.starts = new Int32Array(rowsMax + 1);
    this.allowedRows = new Int32Array(rowsMax);
    this.allowed = new Uint32Array(rowsMax * this.wordsPerRow);
    this.repetition = new Float32Array(rowsMax);
    this.frequency = new Float32Array(rowsMax);
    this.presence = new Float32Array(rowsMax);
    this.#entryOf = new Int32Array(vocabularySize);
  }

  /** Rows begun since `reset`. */
  get rows(): number {
    return this.#rows;
  }

  get entries(): number {
    return this.#entries;
  }

  /** Rows that have a mask. */
  get maskedRows(): number {
    return this.#masked;
  }

  /** No row has an edit. */
  get empty(): boolean {
    return this.#entries === 0 && this.#masked === 0;
  }

  /** [entries]. Views, valid until the next `reset`. */
  get tokens(): Int32Array {
    return this.#tokens.subarray(0, this.#entries);
  }

  get biases(): Float32Array {
    return this.#biases.subarray(0, this.#entries);
  }

  get counts(): Int32Array {
    return this.#counts.subarray(0, this.#entries);
  }

  /** All rows since `reset`, of which row `first` of the batch is the first. Valid as views are. */
  part(first: number): RowEdits {
    const count = this.#rows;
    const allowed = this.allowed.subarray(0, count * this.wordsPerRow);
    const masks = { allowed, rows: this.allowedRows.subarray(0, count) };
    return {
      ...{ first, count },
      starts: this.starts.subarray(0, count + 1),
      ...{ tokens: this.tokens, biases: this.biases, counts: this.counts },
      repetition: this.repetition.subarray(0, count),
      frequency: this.frequency.subarray(0, count),
      presence: this.presence.subarray(0, count),
      masks: this.#masked > 0 ? masks : null,
    };
  }

  reset(): void {
    this.#rows = 0;
    this.#entries = 0;
    this.#masked = 0;
  }

  /** Begins the next row, without edits. */
  beginRow(): void {
    assert(this.#rows < this.allowedRows.length, `Cannot begin row ${this.#rows}: no room for it`);
    this.allowedRows[this.#rows] = 0;
    this.repetition[this.#rows] = 1;
    this.frequency[this.#rows] = 0;
    this.presence[this.#rows] = 0;
    this.#rows++;
    this.starts[this.#rows] = this.#entries;
    this.#indexed = this.#entries;
  }

  /** Removes all edits of the current row. */
  clearRow(): void {
    const row = this.#rows - 1;
    assert(row >= 0, "Cannot clear a row before one has begun");
    this.#entries = this.starts[row] ?? 0;
    if (this.allowedRows[row] === 1) this.#masked--;
    this.#rows--;
    this.beginRow();
  }

  /** Penalties of the current row; they apply to tokens that have a count. */
  penalize(repetition: number, frequency: number, presence: number): void {
    this.repetition[this.#rows - 1] = repetition;
    this.frequency[this.#rows - 1] = frequency;
    this.presence[this.#rows - 1] = presence;
  }

  /** Adds to a token's logit; -Infinity forbids it. */
  bias(token: number, value: number): void {
    const entry = this.#entry(token);
    this.#biases[entry] = (this.#biases[entry] ?? 0) + value;
  }

  /** Adds the counts of sampled tokens. Must come first in a row. */
  count(history: TokenHistory): void {
    const start = this.#entries;
    assert(start === this.starts[this.#rows - 1], "Cannot count tokens: the row has entries");
    this.#entries += history.length;
    this.#makeRoom();
    history.copyTo(this.#tokens, this.#counts, start);
    this.#biases.fill(0, start, this.#entries);
    this.starts[this.#rows] = this.#entries;
  }

  /** The current row's mask, for the caller to fill. Only tokens with a set bit may be sampled. */
  mask(): Uint32Array {
    const row = this.#rows - 1;
    if (this.allowedRows[row] === 0) this.#masked++;
    this.allowedRows[row] = 1;
    return this.allowed.subarray(row * this.wordsPerRow, (row + 1) * this.wordsPerRow);
  }

  #entry(token: number): number {
    for (; this.#indexed < this.#entries; this.#indexed++) {
      this.#entryOf[this.#tokens[this.#indexed] ?? 0] = this.#indexed;
    }
    const known = this.#entryOf[token];
    assert(known !== undefined, `Cannot edit the logit of token ${token}: it has none`);
    const rowStart = this.starts[this.#rows - 1] ?? 0;
    if (known >= rowStart && known < this.#entries && this.#tokens[known] === token) return known;
    return this.#append(token);
  }

  #append(token: number): number {
    const entry = this.#entries++;
    this.#makeRoom();
    this.#tokens[entry] = token;
    this.#biases[entry] = 0;
    this.#counts[entry] = 0;
    this.starts[this.#rows] = this.#entries;
    return entry;
  }

  /** Reallocates the arrays when the entries outgrow them. */
  #makeRoom(): void {
    if (this.#entries <= this.#tokens.length) return;
    this.#tokens = grown(this.#tokens, this.#entries, (n) => new Int32Array(n));
    this.#biases = grown(this.#biases, this.#entries, (n) => new Float32Array(n));
    this.#counts = grown(this.#counts, this.#entries, (n) => new Int32Array(n));
  }
}
