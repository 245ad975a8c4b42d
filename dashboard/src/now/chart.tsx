import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { color, onScheme } from "../colors.ts";
import type { Series } from "../series.ts";

const HEIGHT = 168;
const SPAN_SECONDS = 120;
const AXIS_FONT = "11px system-ui, sans-serif";

export interface Line {
  /** Of the series. */
  readonly column: number;
  readonly label: string;
  /** A colour's name in the style sheet. */
  readonly color: string;
  readonly dashed?: boolean;
  readonly filled?: boolean;
}

export interface ChartProps {
  readonly title: string;
  /** What the chart shows now, in words. */
  readonly says: string;
  readonly series: Series;
  readonly lines: readonly Line[];
  /** The column of seconds. */
  readonly timeColumn: number;
  /** Changes with each message. */
  readonly version: number;
  /** As an axis label, e.g. `ms`. */
  readonly unit?: string;
  readonly logarithmic?: boolean;
}

/** Lines over the last two minutes. */
export function Chart(props: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const newest = useRef(props);
  newest.current = props;
  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(newest.current, element.clientWidth), [[]], element);
      show(plot.current, newest.current);
    };
    draw();
    const resize = new ResizeObserver(() => {
      plot.current?.setSize({ width: element.clientWidth, height: HEIGHT });
    });
    resize.observe(element);
    const stop = onScheme(draw);
    return () => {
      stop();
      resize.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => {
    if (plot.current !== null) show(plot.current, props);
  }, [props.version]);
  return (
    <section class="card" aria-label={props.title}>
      <h2>{props.title}</h2>
      <Legend lines={props.lines} series={props.series} unit={props.unit ?? ""} />
      <div class="plot" ref={host} role="img" aria-label={props.says} />
    </section>
  );
}

function Legend({ lines, series, unit }: Pick<ChartProps, "lines" | "series"> & { unit: string }) {
  return (
    <ul class="legend">
      {lines.map((line) => (
        <li key={line.label}>
          <i class={`key key-${line.color}${line.dashed ? " dashed" : ""}`} />
          {line.label} <b>{valueText(series.last(line.column))}</b> {unit}
        </li>
      ))}
    </ul>
  );
}

function valueText(value: number): string {
  if (Number.isNaN(value)) return "–";
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function show(plot: uPlot, { series, lines, timeColumn }: ChartProps): void {
  const seconds = series.column(timeColumn);
  const end = seconds.at(-1) ?? 0;
  // uPlot takes null for a gap.
  const columns = lines.map(({ column }) =>
    series.column(column).map((value) => (Number.isNaN(value) ? null : value)),
  );
  plot.setData([seconds.map((value) => value - end), ...columns] as uPlot.AlignedData);
}

function optionsOf({ lines, logarithmic = false }: ChartProps, width: number): uPlot.Options {
  const axis = {
    stroke: color("quiet"),
    grid: { stroke: color("grid"), width: 1 },
    ticks: { show: false },
    font: AXIS_FONT,
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: false, range: [-SPAN_SECONDS, 0] },
      y: logarithmic
        ? {
            distr: 3,
            range: (_plot, low, high) => [Math.max(0.01, low / 2), Math.max(1, high * 2)],
          }
        : { range: (_plot, _low, high) => [0, Math.max(1, (high ?? 1) * 1.1)] },
    },
    axes: [
      {
        ...axis,
        size: 26,
        values: (_plot, ticks) => ticks.map((tick) => (tick === 0 ? "now" : `${tick} s`)),
      },
      { ...axis, size: 52 },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        stroke: color(line.color),
        width: 1.75,
        points: { show: false },
        ...(line.dashed && { dash: [4, 4] }),
        ...(line.filled && { fill: `${color(line.color)}26` }),
      })),
    ],
  };
}
