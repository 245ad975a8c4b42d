import { Canvas } from "../canvas.tsx";
import { color } from "../colors.ts";
import type { StepRow } from "../messages.ts";
import { count, duration } from "../numbers.ts";

const SPAN_MS = 20_000;
const HEIGHT = 150;
/** Height of the lower part, where times are. */
const TIMES = 44;

/** Places in a row of steps. */
const END = 0;
const STEPS = 1;
const SECONDS = 2;
const HOST = 3;
const PREFILL = 5;
const DRAFTED = 6;
const DECODE = 7;

/** The last 20 s: above, what steps computed; below, their time on the device and on the host. */
export function StepTimeline({ steps, version }: { steps: readonly StepRow[]; version: number }) {
  const last = steps.at(-1);
  const says =
    last === undefined
      ? "No step yet"
      : `The last steps took ${duration(value(last, SECONDS) / value(last, STEPS))} each, of ` +
        `which ${duration(value(last, HOST) / value(last, STEPS))} planning on the host`;
  return (
    <section class="card wide" aria-label="Steps">
      <h2>Steps</h2>
      <ul class="legend">
        <li>
          <i class="key key-prefill" /> prefill
        </li>
        <li>
          <i class="key key-decode" /> decode
        </li>
        <li>
          <i class="key key-drafted" /> drafted
        </li>
        <li>
          <i class="key key-host" /> host time
        </li>
        <li class="right">{says}</li>
      </ul>
      <Canvas
        says={says}
        height={HEIGHT}
        version={version}
        draw={(pen, width, height) => draw(steps, pen, { width, height })}
      />
    </section>
  );
}

function draw(
  steps: readonly StepRow[],
  pen: CanvasRenderingContext2D,
  { width, height }: { readonly width: number; readonly height: number },
): void {
  const end = value(steps.at(-1) ?? [], END);
  const shown = steps.filter((step) => value(step, END) > end - SPAN_MS);
  const tokensMax = Math.max(1, ...shown.map((step) => tokensOf(step) / value(step, STEPS)));
  const secondsMax = Math.max(
    1e-6,
    ...shown.map((step) => value(step, SECONDS) / value(step, STEPS)),
  );
  const top = height - TIMES - 8;
  const at = (ms: number) => width - ((end - ms) / SPAN_MS) * width;
  for (const step of shown) {
    const count = value(step, STEPS);
    const right = at(value(step, END));
    const left = Math.min(right - 1, at(value(step, END) - value(step, SECONDS) * 1000));
    let y = top;
    for (const [place, name] of PARTS) {
      const high = (value(step, place) / count / tokensMax) * (top - 14);
      pen.fillStyle = color(name);
      pen.fillRect(left, y - high, Math.max(1, right - left - 0.5), high);
      y -= high;
    }
    const whole = (value(step, SECONDS) / count / secondsMax) * TIMES;
    const host = Math.min(whole, (value(step, HOST) / count / secondsMax) * TIMES);
    pen.fillStyle = color("device-dim");
    pen.fillRect(left, height - whole, Math.max(1, right - left - 0.5), whole - host);
    pen.fillStyle = color("host-time");
    pen.fillRect(left, height - host, Math.max(1, right - left - 0.5), host);
  }
  pen.fillStyle = color("quiet");
  pen.font = "11px system-ui, sans-serif";
  pen.fillText(`${count(tokensMax)} tokens a step`, 4, 11);
  pen.fillText(`${duration(secondsMax)} a step`, 4, height - TIMES + 2);
  pen.fillStyle = color("grid");
  pen.fillRect(0, top + 1, width, 1);
}

const PARTS = [
  [DECODE, "decode"],
  [DRAFTED, "drafted"],
  [PREFILL, "prefill"],
] as const;

function tokensOf(step: StepRow): number {
  return value(step, PREFILL) + value(step, DRAFTED) + value(step, DECODE);
}

function value(step: StepRow, place: number): number {
  return step[place] ?? 0;
}
