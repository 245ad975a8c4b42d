// Steps: what they do with their input, late reads, and steps that are kept and replayed.
import { RandomNumbers, verdict } from "../pair.mjs";

async function takeCase(pair, count) {
  const random = new RandomNumbers(count);
  const ids = pair.i32(Array.from({ length: count + 3 }, () => random.below(1000)));
  const sampled = pair.i32([5, 6, 7, 8]);
  const sources = pair.i32(Array.from({ length: count }, () => random.below(6) - 2));
  pair.run((device, pick) => {
    device.takeTokens({ count, ids: pick(ids), sampled: pick(sampled), sources: pick(sources) });
  });
  return [await pair.compare(ids)];
}

async function acceptCase(pair, sizes) {
  const random = new RandomNumbers(sizes.length);
  const columns = Math.max(1, ...sizes);
  const [ids, sampled, firstIds, firstSampled, parents] = [[], [], [], [], []];
  for (const size of sizes) {
    ids.push(9);
    firstIds.push(ids.length);
    firstSampled.push(sampled.length);
    for (let node = 1; node <= columns; node++) parents.push(random.below(node));
    for (let node = 0; node < size; node++) ids.push(random.below(4) === 0 ? 1 : 2);
    for (let node = 0; node <= size; node++) sampled.push(2);
  }
  const count = sizes.length;
  const [roots, nodes, depths] = [-1, 10, 7].map((first) =>
    pair.i32(Array.from({ length: count }, (_, at) => first * at)),
  );
  const tree = pair.i32(parents, [count, columns]);
  const given = [ids, sampled, firstIds, firstSampled, sizes].map((values) => pair.i32(values));
  pair.run((device, pick) => {
    const [tokens, drawn, idStarts, drawnStarts, drafted] = given.map(pick);
    device.acceptTrees({
      ...{ count, ids: tokens, sampled: drawn, firstIds: idStarts, firstSampled: drawnStarts },
      ...{ drafted, columns, parents: pick(tree), roots: pick(roots) },
      ...{ nodes: pick(nodes), depths: pick(depths) },
    });
  });
  return [await pair.compare(roots), await pair.compare(nodes), await pair.compare(depths)];
}

async function traceCase(pair, { count, width, length }) {
  const random = new RandomNumbers(count * width);
  const stride = Math.ceil((count * width) / 64) * 64;
  const levels = new Int32Array(2 * length * stride);
  for (let level = 0; level < length; level++) {
    for (let beam = 0; beam < count * width; beam++) {
      levels[2 * level * stride + beam] = random.below(1000);
      const first = Math.floor(beam / width) * width;
      levels[(2 * level + 1) * stride + beam] = level === 0 ? -1 : first + random.below(width);
    }
  }
  const given = pair.i32(levels);
  const out = pair.i32(new Array(count * width * length).fill(-7));
  pair.run((device, pick) => {
    device.traceBeams({ count, width, length, stride, levels: pick(given), out: pick(out) });
  });
  return [await pair.compare(out)];
}

async function spreadCase(pair, lengths, columns) {
  const starts = [0];
  for (const length of lengths) starts.push(starts.at(-1) + length);
  const random = new RandomNumbers(columns);
  const values = pair.i32(Array.from({ length: starts.at(-1) }, () => random.below(1000)));
  const count = lengths.length;
  const rows = Array.from({ length: count * columns }, (_, i) => -i);
  const out = pair.i32(rows, [count, columns]);
  const given = pair.i32(starts);
  pair.run((device, pick) => {
    device.spreadRows({ count, out: pick(out), starts: pick(given), values: pick(values) });
  });
  return [await pair.compare(out)];
}

/** More reads than there is room for, each of a tensor that is overwritten behind it. */
async function lateReadCase(pair, elements) {
  const device = pair.tested;
  const tensor = device.allocate("i32", [elements]);
  const reads = [];
  for (let i = 0; i < 40; i++) {
    device.write(tensor, new Int32Array(elements).fill(i));
    reads.push(device.readLater(tensor));
  }
  const verdicts = [];
  for (const [i, read] of reads.reverse().entries()) {
    const wanted = new Int32Array(elements).fill(39 - i);
    verdicts.push(verdict(await read.take(), wanted, 0, 0));
  }
  device.release(tensor);
  return verdicts;
}

/** What runs at first, is captured and is then launched adds the same each time. */
async function replayCase(pair) {
  const device = pair.tested;
  const count = 1000;
  const x = device.allocate("f32", [1, count]);
  const delta = device.allocate("f32", [1, count]);
  device.write(x, new Float32Array(count));
  device.write(delta, new Float32Array(count).fill(1));
  const add = () => {
    for (let i = 0; i < 100; i++) device.add({ count: 1, x, delta });
  };
  for (let run = 0; run < 10; run++) device.replay("smoke: add", add);
  device.write(delta, new Float32Array(count).fill(2));
  device.replay("smoke: add", add);
  const verdicts = [verdict(await device.readF32(x), new Float32Array(count).fill(1200), 0, 0)];
  await device.synchronize();
  device.release(x);
  device.release(delta);
  return verdicts;
}

/** Each case: the op, what is special about it, and what runs it. */
export function* cases() {
  for (const count of [1, 5, 700]) {
    yield { op: "takeTokens", name: `${count}`, run: (pair) => takeCase(pair, count) };
  }
  for (const sizes of [[0], [63, 0, 5, 40, 33], Array.from({ length: 700 }, (_, at) => at % 50)]) {
    const name = `${sizes.length} trees`;
    yield { op: "acceptTrees", name, run: (pair) => acceptCase(pair, sizes) };
  }
  for (const [count, width, length] of [
    [1, 4, 4],
    [100, 16, 8],
  ]) {
    const name = `${count} sequences of ${width} beams`;
    yield { op: "traceBeams", name, run: (pair) => traceCase(pair, { count, width, length }) };
  }
  const tables = [
    [[1], 1],
    [[0, 3, 0, 7, 1, 0], 7],
    [Array.from({ length: 256 }, (_, i) => (i * 37) % 300), 8192],
  ];
  for (const [lengths, columns] of tables) {
    const name = `${lengths.length} rows of ${columns}`;
    yield { op: "spreadRows", name, run: (pair) => spreadCase(pair, lengths, columns) };
  }
  for (const elements of [1, 256, 40_000]) {
    yield { op: "readLater", name: `${elements}`, run: (pair) => lateReadCase(pair, elements) };
  }
  yield { op: "replay", name: "a hundred kernels", run: replayCase };
}
