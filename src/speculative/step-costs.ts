/** How long steps take, by what they compute: measured while they run. */

/** What a step computes for sequences that decode. */
export interface StepSize {
  /** Sequences that sample a token. */
  readonly sequences: number;
  /** Drafted tokens of all sequences together. */
  readonly nodes: number;
}

/**
 * Measured steps of a size that are kept, of which an estimate is the lower quartile: the last few,
 * and more of them where they are recent. A few that follow each other may all be disturbed.
 */
const KEPT = { least: 7, most: 31, recentSteps: 256 };
/** Every so many steps it is looked for sizes to forget. */
const FORGETS_EVERY = 7;
/** Steps after which a size that was not seen again is forgotten: contexts grow meanwhile. */
const FORGOTTEN_AFTER = 1024;
/** What one more row costs of a row of a plain step, before any step with drafts was measured. */
const ROW_SHARE = 0.25;
/**
 * Where costs were measured ahead: steps of a size that are measured before they count for more,
 * and the least that they are of what was expected then. A plain step takes a few times as long
 * while code is new or a processor sleeps, so that drafts seem to cost little. Numbers of sequences
 * that differ by a larger factor are not alike: a matrix unit takes 16 rows in the time of one.
 */
const SINCE_AHEAD = { stepsMin: 3, least: 0.8, alike: 1.5 };
/** Rows up to here are told apart; above, sizes that differ by less than a quarter are alike. */
const EXACT_MAX = 4;

/** What steps of one number of sequences took before any request, by rising drafted tokens. */
export interface CostRow {
  readonly sequences: number;
  /** The first has no drafted tokens. */
  readonly points: readonly { readonly nodes: number; readonly ms: number }[];
}

/**
 * Durations of steps of about one size. The first is left out: kernels are compiled and memory is
 * touched in it.
 */
class Cell {
  /** Mean of the drafted tokens that were measured. */
  nodes: number;
  /** Of the newest step of this size, as `StepCosts` counts them. */
  newest = 0;
  #isNew: boolean;
  /** By age, the newest last. */
  readonly #kept: { readonly ms: number; readonly step: number }[] = [];
  #usual: number | null = null;

  constructor(nodes: number) {
    this.nodes = nodes;
    this.#isNew = nodes > 0;
  }

  get count(): number {
    return this.#kept.length;
  }

  /** `step`: its number, as `StepCosts` counts them. */
  record(nodes: number, ms: number, step: number): void {
    this.newest = step;
    if (this.#isNew) {
      this.#isNew = false;
      return;
    }
    const kept = this.#kept;
    kept.push({ ms, step });
    const oldest = step - KEPT.recentSteps;
    while (kept.length > KEPT.most || (kept.length > KEPT.least && (kept[0]?.step ?? 0) < oldest)) {
      kept.shift();
    }
    this.nodes += (nodes - this.nodes) / kept.length;
    this.#usual = null;
  }

  get ms(): number {
    this.#usual ??= lowerQuartile(this.#kept.map(({ ms }) => ms));
    return this.#usual;
  }
}

/**
 * Expected durations. A size that was measured has the lower quartile of its last steps; between
 * two, and behind the largest, it is on the line through them. So a few disturbed steps change
 * nothing.
 *
 * Sizes that were only measured ahead, before any request, have the share of a plain step that they
 * had then, of the nearest number of sequences; corrected by those that have been measured since,
 * as contexts grow.
 */
export class StepCosts {
  readonly #ahead: readonly CostRow[];
  /** By classes of sequences, then of nodes. */
  readonly #cells = new Map<number, Map<number, Cell>>();
  /** Of classes of sequences, until another step of theirs is measured. */
  readonly #lines = new Map<number, CostLine>();
  #steps = 0;

  /** `ahead`: what was measured before any request. Default: nothing. */
  constructor(ahead: readonly CostRow[] = []) {
    this.#ahead = ahead;
  }

  /** Whether steps of about so many sequences with drafts were measured before any request. */
  knows(sequences: number): boolean {
    return (this.#nearest(sequences)?.points.length ?? 0) > 1;
  }

  /** Records a step: from the end of the one before to its own end. */
  record({ sequences, nodes }: StepSize, ms: number): void {
    const [row, place] = [sizeClass(sequences), sizeClass(nodes)];
    const cells = this.#cells.get(row) ?? new Map<number, Cell>();
    this.#cells.set(row, cells);
    const cell = cells.get(place) ?? new Cell(nodes);
    cells.set(place, cell);
    this.pass();
    cell.record(nodes, ms, this.#steps);
    this.#lines.delete(row);
    if (this.#steps % FORGETS_EVERY !== 0) return;
    for (const [key, { newest }] of cells) {
      if (key !== 0 && this.#steps - newest > FORGOTTEN_AFTER) cells.delete(key);
    }
  }

  /** A step went by that is not recorded here: what was, is older. */
  pass(): void {
    this.#steps++;
  }

  /** Plain steps of about so many sequences that were measured. */
  plainSteps(sequences: number): number {
    return this.#cells.get(sizeClass(sequences))?.get(0)?.count ?? 0;
  }

  /** What a plain step of about so many sequences takes; null: none was measured. */
  plainMs(sequences: number): number | null {
    return this.#cells.get(sizeClass(sequences))?.get(0)?.ms ?? null;
  }

  /** Most drafted tokens that steps of about so many sequences were measured with. */
  nodesMeasured(sequences: number): number {
    const cells = this.#cells.get(sizeClass(sequences)) ?? new Map<number, Cell>();
    let most = this.#nearest(sequences)?.points.at(-1)?.nodes ?? 0;
    for (const { count, nodes } of cells.values()) if (count > 0 && nodes > most) most = nodes;
    return most;
  }

  /** Null where no plain step of about as many sequences was measured. */
  of(sequences: number): CostLine | null {
    const row = sizeClass(sequences);
    const known = this.#lines.get(row);
    if (known !== undefined) return known;
    const cells = this.#cells.get(row);
    const plain = cells?.get(0);
    if (cells === undefined || plain === undefined) return null;
    const isKnown = this.knows(sequences);
    const drafted = isKnown ? this.#expected(sequences, cells) : this.#measured(cells, 1);
    drafted.sort((a, b) => a.nodes - b.nodes);
    const line = new CostLine(sequences, plain.ms, drafted);
    this.#lines.set(row, line);
    return line;
  }

  /** Sizes with drafts of which so many steps were measured. */
  #measured(cells: ReadonlyMap<number, Cell>, least: number): CostPoint[] {
    const found: Cell[] = [];
    for (const [place, cell] of cells) if (place !== 0 && cell.count >= least) found.push(cell);
    return found.map(({ nodes, ms }) => ({ nodes, ms }));
  }

  /** What was measured ahead, as it is expected now, and the sizes that were measured since. */
  #expected(sequences: number, cells: ReadonlyMap<number, Cell>): CostPoint[] {
    const [before, ...points] = this.#nearest(sequences)?.points ?? [];
    const measured = this.#measured(cells, SINCE_AHEAD.stepsMin);
    const plainMs = cells.get(0)?.ms ?? 0;
    if (before === undefined) return measured;
    const scaled = points.map(({ nodes, ms }) => ({ nodes, ms: (plainMs * ms) / before.ms }));
    const line = new CostLine(sequences, plainMs, scaled);
    const grown: number[] = [];
    const found = measured.map(({ nodes, ms }) => {
      const share = Math.max(SINCE_AHEAD.least, ms / line.ms(nodes));
      grown.push(share);
      return { nodes, ms: share * line.ms(nodes) };
    });
    const factor = median(grown) ?? 1;
    const classes = new Set(found.map(({ nodes }) => sizeClass(nodes)));
    for (const { nodes, ms } of scaled) {
      if (!classes.has(sizeClass(nodes))) found.push({ nodes, ms: factor * ms });
    }
    return found;
  }

  /** Of about as many sequences; null: no such steps were measured ahead. */
  #nearest(sequences: number): CostRow | null {
    const distance = (row: CostRow): number => Math.abs(Math.log(row.sequences / sequences));
    let nearest: CostRow | null = null;
    for (const row of this.#ahead) {
      if (distance(row) > Math.log(SINCE_AHEAD.alike)) continue;
      if (nearest === null || distance(row) < distance(nearest)) nearest = row;
    }
    return nearest;
  }
}

/** A measured number of nodes, and what it took. */
interface CostPoint {
  readonly nodes: number;
  readonly ms: number;
}

/** Expected ms of steps of a number of sequences, by their drafted tokens. */
export class CostLine {
  readonly #sequences: number;
  readonly #plainMs: number;
  readonly #nodes: Float64Array;
  readonly #ms: Float64Array;

  /** `drafted`: by rising nodes. */
  constructor(sequences: number, plainMs: number, drafted: readonly CostPoint[]) {
    this.#sequences = sequences;
    this.#plainMs = plainMs;
    this.#nodes = Float64Array.from(drafted, ({ nodes }) => nodes);
    this.#ms = Float64Array.from(drafted, ({ ms }) => ms);
    // Fewer rows take no longer: such a measurement is older than that of more rows.
    for (let at = this.#ms.length - 2; at >= 0; at--) {
      this.#ms[at] = Math.min(this.#ms[at] ?? 0, this.#ms[at + 1] ?? 0);
    }
  }

  ms(nodes: number): number {
    const [places, found, plainMs] = [this.#nodes, this.#ms, this.#plainMs];
    const last = places.length - 1;
    if (nodes === 0) return plainMs;
    if (last < 0) return plainMs * (1 + (ROW_SHARE * nodes) / this.#sequences);
    let high = 0;
    while (high <= last && (places[high] ?? 0) < nodes) high++;
    // Drafts cost something at once, as steps that do not overlap, so the line from a plain step to
    // the first drafted one is not used below that.
    if (high === 0) return found[0] ?? plainMs;
    const [low, lowMs] = [places[high - 1] ?? 0, found[high - 1] ?? plainMs];
    if (high <= last) return lowMs + this.#slope(high) * (nodes - low);
    const rise = last === 0 ? (lowMs - plainMs) / (2 * low) : this.#slope(last);
    return lowMs + Math.max(0, rise) * (nodes - low);
  }

  /** Of the line that ends at a measured point. */
  #slope(high: number): number {
    const run = (this.#nodes[high] ?? 0) - (this.#nodes[high - 1] ?? 0);
    return run <= 0 ? 0 : ((this.#ms[high] ?? 0) - (this.#ms[high - 1] ?? 0)) / run;
  }
}

/** Numbers of one class are taken as one size: 0, 1, 2, 3, 4, up to 6, 8, 12, 16, 24 and so on. */
export function sizeClass(count: number): number {
  if (count <= EXACT_MAX) return count;
  const octave = Math.floor(Math.log2(count - 0.5));
  const half = count <= 1.5 * 2 ** octave ? 1 : 2;
  return EXACT_MAX + 2 * (octave - 2) + half;
}

function median(values: readonly number[]): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? null;
}

/** Steps are disturbed to one side, so it is the lower quartile that says what they take. */
export function lowerQuartile(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[(sorted.length - 1) >> 2] ?? 0;
}
