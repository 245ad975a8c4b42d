/** A tensor's extents, outermost first. `[]` is a scalar. */
export type Shape = readonly number[];

/** Number of elements; 1 for a scalar. */
export function elementCount(shape: Shape): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

/** `[2, 3]`, as messages print it. */
export function formatShape(shape: Shape): string {
  return `[${shape.join(", ")}]`;
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((extent, axis) => extent === b[axis]);
}
