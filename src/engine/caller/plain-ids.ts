/**
 * Token ids as a plain array, as callers read them. A loop: `Array.from` takes 20 times as long
 * (100,000 ids: 15.7 ms and 0.75, Node 20, busy machine, 2026-11-23).
 */
export function plainIds(ids: Int32Array): number[] {
  const list = new Array<number>(ids.length);
  for (let place = 0; place < ids.length; place++) list[place] = ids[place] ?? 0;
  return list;
}
