/** Events as strangers make them. */

/** Numbers below a limit; equal seeds draw equal ones. */
export function dice(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

/** Values that no field expects. */
export const NASTY: readonly unknown[] = [
  null,
  true,
  -1,
  0,
  4,
  1.5,
  2 ** 40,
  Number.NaN,
  2n ** 64n - 1n,
  -(2n ** 63n),
  "",
  "GPU",
  "x".repeat(2000),
  [],
  [[[[]]]],
  [1, 2, 3, 4],
  {},
  { type: "BlockStored" },
  new Uint8Array(3),
  new Uint8Array(32),
];

const FIELDS = [
  ...["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"],
  ...["lora_name", "extra_keys", "group_idx", "locality", "cache_salt", "type"],
];

/** An event that is nearly one. */
export function nastyEvent(below: (limit: number) => number): unknown {
  const any = () => NASTY[below(NASTY.length)];
  const good: Record<string, unknown> = {
    type: ["BlockStored", "BlockRemoved", "AllBlocksCleared", "Other"][below(4)],
    block_hashes: [1 + below(9)],
    parent_block_hash: below(2) === 0 ? null : below(9),
    token_ids: [1, 2, 3, 4],
    block_size: 4,
    medium: "GPU",
  };
  for (let change = below(3); change >= 0; change--) {
    good[FIELDS[below(FIELDS.length)] ?? ""] = any();
  }
  if (below(3) > 0) return good;
  return below(4) === 0
    ? any()
    : [good.type, ...FIELDS.slice(0, below(9)).map((name) => good[name])];
}
