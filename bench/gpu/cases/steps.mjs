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

async function acceptCase(pair, lengths) {
  const random = new RandomNumbers(lengths.length);
  const [ids, sampled, firstIds, firstSampled] = [[], [], [], []];
  for (const length of lengths) {
    ids.push(9);
    firstIds.push(ids.length);
    firstSampled.push(sampled.length);
    for (let place = 0; place < length; place++) ids.push(random.below(4) === 0 ? 1 : 2);
    for (let place = 0; place <= length; place++) sampled.push(2);
  }
  const count = lengths.length;
  const roots = pair.i32(new Array(count).fill(-1));
  const places = pair.i32(Array.from({ length: 2 * count }, (_, at) => at));
  const given = [ids, sampled, firstIds, firstSampled, lengths].map((values) => pair.i32(values));
  pair.run((device, pick) => {
    const [tokens, drawn, idStarts, drawnStarts, drafted] = given.map(pick);
    device.acceptChains({
      ...{ count, ids: tokens, sampled: drawn, firstIds: idStarts, firstSampled: drawnStarts },
      ...{ drafted, roots: pick(roots), placeRows: 2, places: pick(places) },
    });
  });
  return [await pair.compare(roots), await pair.compare(places)];
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
  for (const lengths of [[0], [4, 0, 1, 7, 3], Array.from({ length: 700 }, (_, at) => at % 9)]) {
    const name = `${lengths.length} chains`;
    yield { op: "acceptChains", name, run: (pair) => acceptCase(pair, lengths) };
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
