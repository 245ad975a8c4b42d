import { useEffect, useState } from "preact/hooks";
import { Canvas } from "../canvas.tsx";
import { color } from "../colors.ts";
import type { LevelCounts, LevelName } from "../messages.ts";
import { bytes, count } from "../numbers.ts";
import { type DecodedMap, GLOW_MS } from "./cache-state.ts";

const CELL_MAX = 15;
const CELL_MIN = 5;
const HEIGHT_MAX = 260;
const CELL_BYTES = 3;
/** A glow fades in steps: each frame would keep a phone warm while the server is busy. */
const GLOW_STEP_MS = 80;
/** Blocks of requests that ask for no retention. */
const PRIORITY_DEFAULT = 35;

export const LEVEL_TITLES: Readonly<Record<LevelName, string>> = {
  device: "Device",
  host: "Host memory",
  disk: "Disk",
};

interface MapProps {
  readonly map: DecodedMap;
  readonly counts: LevelCounts | null;
  readonly bytesPerBlock: number;
  readonly version: number;
}

/** A level's blocks in the order of their numbers, each cell as many of them. */
export function BlockMap({ map, counts, bytesPerBlock, version }: MapProps) {
  const frame = useGlow(map, version);
  const cells = map.cells.length / CELL_BYTES;
  const [width, setWidth] = useState(600);
  const size = cellSize(cells, width);
  const rows = Math.ceil(cells / Math.max(1, Math.floor(width / size)));
  const { free = 0, held = 0, cached = 0 } = counts ?? {};
  const says = `${LEVEL_TITLES[map.level]}: ${held} blocks held, ${cached} cached, ${free} free`;
  return (
    <section class={`card level-${map.level}`} aria-label={LEVEL_TITLES[map.level]}>
      <h2>
        {LEVEL_TITLES[map.level]}{" "}
        <span class="quiet">
          {count(map.blocks)} blocks · {bytes(map.blocks * bytesPerBlock)}
        </span>
      </h2>
      <ul class="legend">
        <li>
          <i class={`key key-held-${map.level}`} /> held <b>{count(held)}</b>
        </li>
        <li>
          <i class={`key key-cached-${map.level}`} /> cached <b>{count(cached)}</b>
        </li>
        <li>
          <i class="key key-free" /> free <b>{count(free)}</b>
        </li>
        <li class="right quiet">
          {map.blocksPerCell === 1 ? "a cell is a block" : `a cell is ${map.blocksPerCell} blocks`}
          {map.isEstimate ? ", estimated" : ""}
        </li>
      </ul>
      <Canvas
        says={says}
        height={Math.max(size, rows * size)}
        version={frame}
        draw={(pen, wide) => {
          if (Math.abs(wide - width) > 1) setWidth(wide);
          drawMap(map, pen, { size, width: wide });
        }}
      />
    </section>
  );
}

/** Draws again with each message, and while a change still glows. */
function useGlow(map: DecodedMap, version: number): number {
  const [frame, setFrame] = useState(0);
  useEffect(() => {
    let id = 0;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const next = () => {
      setFrame((before) => before + 1);
      const limit = performance.now() - GLOW_MS;
      if (!still && map.changedMs.some((ms) => ms > limit))
        id = window.setTimeout(next, GLOW_STEP_MS);
    };
    next();
    return () => clearTimeout(id);
  }, [map, version]);
  return frame;
}

function cellSize(cells: number, width: number): number {
  for (let size = CELL_MAX; size > CELL_MIN; size--) {
    const columns = Math.max(1, Math.floor(width / size));
    if (Math.ceil(cells / columns) * size <= HEIGHT_MAX) return size;
  }
  return CELL_MIN;
}

function drawMap(
  map: DecodedMap,
  pen: CanvasRenderingContext2D,
  { size, width }: { readonly size: number; readonly width: number },
): void {
  const columns = Math.max(1, Math.floor(width / size));
  const inner = size - Math.max(1, Math.round(size / 8));
  const colors = {
    free: color("free"),
    held: color(`held-${map.level}`),
    cached: color(`cached-${map.level}`),
    glow: color("glow"),
  };
  const nowMs = performance.now();
  const cells = map.cells.length / CELL_BYTES;
  for (let cell = 0; cell < cells; cell++) {
    const x = (cell % columns) * size;
    const y = Math.floor(cell / columns) * size;
    const held = (map.cells[cell * CELL_BYTES] ?? 0) / 255;
    const cached = (map.cells[cell * CELL_BYTES + 1] ?? 0) / 255;
    pen.globalAlpha = 1;
    pen.fillStyle = colors.free;
    pen.fillRect(x, y, inner, inner);
    if (cached > 0) {
      pen.globalAlpha = priorityAlpha(map.cells[cell * CELL_BYTES + 2] ?? 0);
      pen.fillStyle = colors.cached;
      fillShare(pen, { x, y: y, size: inner, from: held, to: Math.min(1, held + cached) });
    }
    pen.globalAlpha = 1;
    if (held > 0) {
      pen.fillStyle = colors.held;
      fillShare(pen, { x, y, size: inner, from: 0, to: held });
    }
    const glow = 1 - (nowMs - (map.changedMs[cell] ?? 0)) / GLOW_MS;
    if (glow > 0 && map.changedMs[cell] !== 0) {
      pen.globalAlpha = glow * 0.5;
      pen.fillStyle = colors.glow;
      pen.fillRect(x, y, inner, inner);
    }
  }
  pen.globalAlpha = 1;
}

/** Blocks that are kept longer are stronger. */
function priorityAlpha(priority: number): number {
  if (priority >= PRIORITY_DEFAULT) {
    return 0.62 + (0.38 * (priority - PRIORITY_DEFAULT)) / (100 - PRIORITY_DEFAULT);
  }
  return 0.28 + (0.34 * priority) / PRIORITY_DEFAULT;
}

/** A cell of many blocks is filled from below, as far as its share. */
function fillShare(
  pen: CanvasRenderingContext2D,
  part: {
    readonly x: number;
    readonly y: number;
    readonly size: number;
    readonly from: number;
    readonly to: number;
  },
): void {
  const { x, y, size, from, to } = part;
  const low = y + size * (1 - from);
  const high = y + size * (1 - to);
  pen.fillRect(x, high, size, Math.max(1, low - high));
}
