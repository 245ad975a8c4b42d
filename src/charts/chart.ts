/** What charts say. How they look is not theirs to decide. */
import type { Scale } from "./axis.ts";

export interface AxisText {
  /** Quantity and unit. */
  readonly label: string;
  /** Default: linear. */
  readonly scale?: Scale;
}

export interface PlaceText extends AxisText {
  /** Instead of numbers: the name of each place 0, 1, 2 … */
  readonly names?: readonly string[];
}

export interface ChartSeries {
  readonly name: string;
  /** [x, y] by rising x, from 0 on. Points that are no numbers are left out. */
  readonly points: readonly (readonly [number, number])[];
  /** Marks instead of a line: values of others, to compare with. */
  readonly marks?: boolean;
  /** Has the colour of the series at this place, with which it is to be compared. */
  readonly like?: number;
}

/** A value that matters, such as a deadline. */
export interface ChartLimit {
  readonly name: string;
  readonly axis: "x" | "y";
  readonly value: number;
}

/** Lines over two axes. Axes begin at 0, but for logarithms and an x axis that is far from it. */
export interface LineChart {
  readonly kind: "lines";
  readonly title: string;
  /** What was measured, on what and when. */
  readonly subtitle?: string;
  readonly x: PlaceText;
  readonly y: AxisText;
  readonly series: readonly ChartSeries[];
  readonly limits?: readonly ChartLimit[];
}

export interface BarRow {
  readonly label: string;
  /** A value for each series, from 0 on; null: it has none here, and no bar. */
  readonly values: readonly (number | null)[];
  /** What is written beside the bars. Default: their values. */
  readonly texts?: readonly string[];
}

/** Rows of bars from the left, one bar for each series. */
export interface BarChart {
  readonly kind: "bars";
  readonly title: string;
  readonly subtitle?: string;
  readonly series: readonly string[];
  readonly rows: readonly BarRow[];
  /** Written behind values, with its space: " ms". */
  readonly unit?: string;
  /** A value to compare bars with: a line through all rows. */
  readonly limit?: { readonly name: string; readonly value: number };
}

export type Chart = LineChart | BarChart;
