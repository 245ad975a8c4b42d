/** Changes that break readers which trust what they read: of bytes, of texts, of JSON. */

/** Integers at the ends of their types. */
const EXTREMES = [
  ...[0n, 1n, 0x7fn, 0xffn, 0x7fffn, 0xffffn, 0x7fffffffn, 0x80000000n, 0xffffffffn, 2n ** 32n],
  ...[2n ** 53n - 1n, 2n ** 53n, 2n ** 62n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n],
];

/** Stand in a JSON value for text that JSON.stringify would not write. */
const RAW = {
  "@deep@": `${"[".repeat(100_000)}${"]".repeat(100_000)}`,
  "@open@": "[".repeat(100_000),
  "@nan@": "NaN",
  "@infinite@": "1e999",
  "@minus@": "-1e308",
  "@huge@": "1e308",
  "@twice@": '{"a": 1, "a": 2}',
  "@proto@": '{"__proto__": {"polluted": true}}',
};

/** Most characters that one change adds. */
const TEXT_MAX = 1_000_000;

const VALUES = [
  ...[0, -1, 1, 2, 3, 0.5, 255, 2 ** 16, 2 ** 28, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 53, 1e-45],
  ...[null, true, false, "", "x", "auto", "\u0000", "\u001b[2J", "\ud800", [], {}, [null], [[]]],
  ...["../../../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "model.safetensors/../x"],
  ...["__proto__", "constructor", "toString", "hasOwnProperty", "y".repeat(100_000)],
  ...Object.keys(RAW),
];

/** A changed copy of a file's bytes. `headBytes`: where most changes fall. */
export function mutateBytes(source, headBytes, dice) {
  let bytes = Buffer.from(source);
  for (let changes = dice.below(4) + 1; changes > 0 && bytes.length > 0; changes--) {
    const within = Math.min(bytes.length, dice.below(8) === 0 ? bytes.length : headBytes);
    bytes = changed(bytes, dice.below(within), within, dice);
  }
  return bytes;
}

function changed(bytes, at, within, dice) {
  switch (dice.below(9)) {
    case 0:
      bytes[at] ^= 1 << dice.below(8);
      return bytes;
    case 1:
      bytes[at] = dice.below(256);
      return bytes;
    case 2:
      if (at + 8 <= bytes.length) bytes.writeBigUInt64LE(dice.pick(EXTREMES), at);
      return bytes;
    case 3:
      if (at + 4 <= bytes.length)
        bytes.writeUInt32LE(Number(dice.pick(EXTREMES) & 0xffffffffn), at);
      return bytes;
    case 4:
      bytes.copyWithin(at, dice.below(within), dice.below(within));
      return bytes;
    case 5:
      bytes[at] = 0x30 + dice.below(10);
      return bytes;
    case 6:
      return dice.below(4) === 0 ? bytes.subarray(0, dice.below(bytes.length)) : bytes;
    case 7:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + dice.below(16))]);
    default:
      return Buffer.concat([
        bytes.subarray(0, at),
        bytes.subarray(0, dice.below(64)),
        bytes.subarray(at),
      ]);
  }
}

/** A changed JSON text: other values, missing and strange keys; now and then other bytes. */
export function mutateJson(text, dice) {
  if (dice.below(8) === 0) return mutateBytes(Buffer.from(text), text.length, dice);
  const root = JSON.parse(text);
  for (let changes = dice.below(3) + 1; changes > 0; changes--) changeInside(root, dice);
  let out = JSON.stringify(root);
  for (const [name, raw] of Object.entries(RAW)) out = out.replaceAll(JSON.stringify(name), raw);
  return Buffer.from(dice.below(50) === 0 ? out.slice(0, dice.below(out.length)) : out);
}

/** Walks down to a random place and changes what is there. */
function changeInside(root, dice) {
  let parent = root;
  for (;;) {
    const keys = Object.keys(parent);
    if (keys.length === 0) {
      put(parent, "extra", structuredClone(dice.pick(VALUES)));
      return;
    }
    const key = dice.pick(keys);
    const child = parent[key];
    const isInner = typeof child === "object" && child !== null && Object.keys(child).length > 0;
    if (isInner && dice.below(4) > 0) {
      parent = child;
      continue;
    }
    changeAt(parent, key, dice);
    return;
  }
}

function changeAt(parent, key, dice) {
  const old = parent[key];
  switch (dice.below(8)) {
    case 0:
      if (Array.isArray(parent)) parent.splice(Number(key), 1);
      else delete parent[key];
      return;
    case 1:
      put(parent, dice.pick(["__proto__", "constructor", "", `${key}x`, "0"]), old);
      return;
    case 2:
      if (typeof old === "number") parent[key] = dice.pick([-old, old + 1, old * 2, old / 3]);
      else if (typeof old === "string") parent[key] = old.slice(dice.below(old.length + 1));
      else parent[key] = structuredClone(dice.pick(VALUES));
      return;
    case 3:
      parent[key] = Array.isArray(old) ? repeated(old[0] ?? null) : [old, old];
      return;
    default:
      parent[key] = structuredClone(dice.pick(VALUES));
  }
}

/** A long list; of long values it has fewer, since two of these may lie in each other. */
function repeated(value) {
  const length = Math.min(10_000, Math.ceil(TEXT_MAX / (JSON.stringify(value).length + 1)));
  return new Array(length).fill(value);
}

/** An own property, whatever its name means. */
function put(target, key, value) {
  if (Array.isArray(target)) target.push(value);
  else
    Object.defineProperty(target, key, {
      value,
      enumerable: true,
      configurable: true,
      writable: true,
    });
}
