/** A column's heading and value. */
export type Cell = readonly [title: string, value: string | number | null];

/** One measurement as two lines of text, with aligned columns. */
export function textRow(cells: readonly Cell[]): string {
  const texts = cells.map(([title, value]) => [title, textOf(value)] as const);
  const widths = texts.map(([title, value]) => Math.max(title.length, value.length));
  const line = (of: (cell: readonly [string, string]) => string) =>
    texts.map((cell, at) => of(cell).padStart(widths[at] ?? 0)).join("  ");
  return `${line(([title]) => title)}\n${line(([, value]) => value)}\n`;
}

/** Numbers with four significant digits. */
function textOf(value: string | number | null): string {
  if (value === null || (typeof value === "number" && !Number.isFinite(value))) return "–";
  return typeof value === "string" ? value : String(Number(value.toPrecision(4)));
}
