/** A table for people: columns as wide as they must be, numbers to the right. */
export function textTable(columns, rows) {
  const cells = rows.map((row) => columns.map(({ of }) => textOf(of(row))));
  const widths = columns.map(({ title }, at) =>
    Math.max(title.length, ...cells.map((row) => row[at].length)),
  );
  const line = (row) =>
    row
      .map((cell, at) => (columns[at].left ? cell.padEnd(widths[at]) : cell.padStart(widths[at])))
      .join("  ")
      .trimEnd();
  return [line(columns.map(({ title }) => title)), ...cells.map(line)].join("\n");
}

function textOf(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "number" ? decimals(value) : String(value);
}

/** Three digits that mean something. */
export function decimals(value) {
  if (!Number.isFinite(value)) return "–";
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(1);
  return Math.abs(value) >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}
