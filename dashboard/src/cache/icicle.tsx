import { useMemo, useRef } from "preact/hooks";
import type { Picture, Run, Segment } from "../messages.ts";
import { count } from "../numbers.ts";
import { layout, type PlacedRest, type PlacedRun } from "./icicle-layout.ts";

const LEVELS = ["device", "host", "disk"] as const;
/** Places in a segment. */
const CONTENTS = 0;
const LEVEL = 1;
const HELD = 2;
const PRIORITY = 3;

export interface IcicleProps {
  readonly picture: Picture;
  readonly chosen: Run | null;
  readonly onChoose: (run: Run) => void;
  readonly onOpen: (run: Run) => void;
}

/**
 * The prefix tree: the root is at the top, a run of blocks is a bar, and what continues it hangs
 * below. Bars are as wide as the contents below them. What a request just hit lights up.
 */
export function Icicle({ picture, chosen, onChoose, onOpen }: IcicleProps) {
  const { runs, rests, height } = useMemo(() => layout(picture), [picture]);
  const fresh = useFresh(picture);
  return (
    <div class="icicle" style={{ height: `${height}px` }}>
      {runs.map((placed) => (
        <RunBar
          key={keyOf(placed.run)}
          placed={placed}
          state={fresh.get(keyOf(placed.run)) ?? ""}
          isChosen={chosen !== null && keyOf(chosen) === keyOf(placed.run)}
          onChoose={onChoose}
          onOpen={onOpen}
        />
      ))}
      {rests.map((rest) => (
        <RestBar
          key={`rest ${rest.of === null ? "" : keyOf(rest.of)}`}
          rest={rest}
          onOpen={onOpen}
        />
      ))}
    </div>
  );
}

/** A run's name: it stays as long as its first block does. */
export function keyOf({ node, serial }: Run): string {
  return `${node}.${serial}`;
}

type Bar = {
  readonly placed: PlacedRun;
  readonly state: string;
  readonly isChosen: boolean;
} & Pick<IcicleProps, "onChoose" | "onOpen">;

function RunBar({ placed, state, isChosen, onChoose, onOpen }: Bar) {
  const { run, x, width, y, height } = placed;
  return (
    <button
      type="button"
      class={`run ${state}${isChosen ? " chosen" : ""}`}
      style={place({ x, width, y, height })}
      aria-pressed={isChosen}
      aria-label={runText(run)}
      title={runText(run)}
      onClick={() => onChoose(run)}
      onDblClick={() => onOpen(run)}
      onKeyDown={(event) => {
        if (event.key === "Enter" && isChosen) onOpen(run);
      }}
    >
      {run.segments.map((segment, at) => (
        <span
          key={at}
          class={`segment ${segmentClass(segment)}`}
          style={{ flexGrow: segment[CONTENTS], opacity: opacityOf(segment) }}
        />
      ))}
      {width > 0.03 && <span class="run-name">{count(run.tokens)}</span>}
    </button>
  );
}

function RestBar({ rest, onOpen }: { rest: PlacedRest } & Pick<IcicleProps, "onOpen">) {
  const { runs, contents, of } = rest;
  const says = `${count(runs)} smaller branches, ${count(contents)} blocks`;
  return (
    <button
      type="button"
      class="run rest"
      style={place(rest)}
      disabled={of === null}
      aria-label={says}
      title={says}
      onClick={() => of !== null && onOpen(of)}
    >
      {rest.width > 0.05 && <span class="run-name">+{count(runs)}</span>}
    </button>
  );
}

function place({ x, width, y, height }: Pick<PlacedRun, "x" | "width" | "y" | "height">) {
  return {
    left: `${x * 100}%`,
    width: `max(2px, calc(${width * 100}% - 1px))`,
    top: `${y}px`,
    height: `${height - 1}px`,
  };
}

function segmentClass(segment: Segment): string {
  const level = LEVELS[segment[LEVEL]] ?? "device";
  return segment[HELD] === 1 ? `held-${level}` : `cached-${level}`;
}

/** As in the maps: blocks of a higher priority are stronger. */
function opacityOf(segment: Segment): number {
  return segment[HELD] === 1 ? 1 : 0.45 + 0.55 * (segment[PRIORITY] / 100);
}

export function runText(run: Run): string {
  const held = run.segments.reduce((sum, segment) => sum + segment[HELD] * segment[CONTENTS], 0);
  const more =
    run.below > run.contents ? `, ${count(run.below - run.contents)} blocks behind it` : "";
  return `${count(run.tokens)} tokens in ${count(run.contents)} blocks, ${count(held)} held${more}`;
}

/** By run: what happened to it since the last picture; `hit`: blocks that were cached are held. */
function useFresh(picture: Picture): ReadonlyMap<string, string> {
  const before = useRef<ReadonlyMap<string, number>>(new Map());
  // Cached blocks of each run: a block that is computed now was none.
  const shown = useRef<{ readonly picture: Picture; readonly fresh: Map<string, string> } | null>(
    null,
  );
  if (shown.current?.picture === picture) return shown.current.fresh;
  const fresh = new Map<string, string>();
  const cached = new Map(picture.runs.map((run) => [keyOf(run), cachedOf(run)]));
  for (const run of picture.runs) {
    const was = before.current.get(keyOf(run));
    if (was === undefined && before.current.size > 0) fresh.set(keyOf(run), "born");
    else if (was !== undefined && heldOf(run) > 0 && cachedOf(run) < was) {
      fresh.set(keyOf(run), "hit");
    }
  }
  before.current = cached;
  shown.current = { picture, fresh };
  return fresh;
}

function cachedOf(run: Run): number {
  return run.contents - heldOf(run);
}

function heldOf(run: Run): number {
  return run.segments.reduce((sum, segment) => sum + segment[HELD] * segment[CONTENTS], 0);
}
