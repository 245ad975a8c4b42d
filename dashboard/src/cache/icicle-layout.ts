/** Where the runs of a prefix tree are drawn: as wide as what is below them, as deep as they are. */
import type { Picture, Run } from "../messages.ts";

/** A run's place: `x` and `width` are shares of the whole width, `y` and `height` are pixels. */
export interface Place {
  readonly x: number;
  readonly width: number;
  readonly y: number;
  readonly height: number;
}

export interface PlacedRun extends Place {
  readonly run: Run;
}

/** Runs that the picture leaves out, together. */
export interface PlacedRest extends Place {
  readonly runs: number;
  readonly contents: number;
  /** The run that they continue; null: they are at the root. */
  readonly of: Run | null;
}

export interface Layout {
  readonly runs: readonly PlacedRun[];
  readonly rests: readonly PlacedRest[];
  readonly height: number;
}

const HEIGHT_MIN = 24;
const HEIGHT_PER_DOUBLING = 13;
const REST_HEIGHT = 20;

/** A run's height grows with the doublings of its contents: a prompt of 500 blocks is 4.6 times. */
export function runHeight(contents: number): number {
  return Math.round(HEIGHT_MIN + HEIGHT_PER_DOUBLING * Math.log2(Math.max(1, contents)));
}

/** Places all runs of a picture. Siblings keep their order: oldest numbers first. */
export function layout(picture: Picture): Layout {
  const children = new Map<number, number[]>();
  picture.runs.forEach(({ parent }, at) => {
    children.set(parent, [...(children.get(parent) ?? []), at]);
  });
  const runs: PlacedRun[] = [];
  const rests: PlacedRest[] = [];
  const roots = { hiddenRuns: picture.hiddenRuns, hiddenContents: picture.hiddenContents };
  const open = [{ parent: -1, of: null as Run | null, ...roots, x: 0, width: 1, y: 0 }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const own = (children.get(next.parent) ?? []).flatMap((at) => {
      const run = picture.runs[at];
      return run === undefined ? [] : [{ at, run }];
    });
    own.sort((left, right) => left.run.node - right.run.node);
    const whole = own.reduce((sum, { run }) => sum + run.below, 0) + next.hiddenContents;
    let { x } = next;
    for (const { at, run } of own) {
      const width = whole === 0 ? 0 : (next.width * run.below) / whole;
      const height = runHeight(run.contents);
      runs.push({ run, x, width, y: next.y, height });
      const { hiddenRuns, hiddenContents } = run;
      open.push({ parent: at, of: run, hiddenRuns, hiddenContents, x, width, y: next.y + height });
      x += width;
    }
    if (next.hiddenRuns > 0) {
      const width = whole === 0 ? 0 : (next.width * next.hiddenContents) / whole;
      const { hiddenRuns, hiddenContents: contents, of, y } = next;
      rests.push({ x, width, y, height: REST_HEIGHT, runs: hiddenRuns, contents, of });
    }
  }
  const ends = [...runs, ...rests].map(({ y, height }) => y + height);
  return { runs, rests, height: Math.max(0, ...ends) };
}
