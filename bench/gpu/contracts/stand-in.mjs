// What the contracts use of vitest: suites, tests by table, and a few expectations.
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";

/** A suite: its name, its tests and suites in order, and what runs before and after them. */
class Suite {
  constructor(name) {
    this.name = name;
    this.children = [];
    this.before = [];
    this.after = [];
  }
}

const root = new Suite("");
let current = root;

/** Declares a suite; `declare` may declare more. */
export function describe(name, declare) {
  const outer = current;
  const suite = new Suite(name);
  outer.children.push(suite);
  current = suite;
  declare();
  current = outer;
}

describe.for = (table) => (name, declare) => {
  for (const row of table) describe(titleOf(name, row), () => declare(row));
};

describe.each = describe.for;

/** Declares a test. */
export function test(name, run) {
  current.children.push({ name, run });
}

test.for = (table) => (name, run) => {
  for (const row of table) test(titleOf(name, row), () => run(row));
};

const declareNothing = Object.assign(() => {}, { for: () => () => {} });

/** `test`, or what declares nothing. */
test.runIf = (isWanted) => (isWanted ? test : declareNothing);

/** Runs once, before the suite's first test. */
export function beforeAll(run) {
  current.before.push(run);
}

/** Runs once, behind the suite's last test. */
export function afterAll(run) {
  current.after.push(run);
}

let finished = [];

/** Runs behind the test that runs now, however it ends. */
export function onTestFinished(run) {
  finished.push(run);
}

/** `$a.b` is a field of the row, `%s` and the like the row or its next element. */
function titleOf(name, row) {
  const parts = Array.isArray(row) ? [...row] : [row];
  return name
    .replace(/%[sid]/g, () => String(parts.shift()))
    .replace(/%o/g, () => JSON.stringify(parts.shift()))
    .replace(/\$([\w.]+\w)/g, (_, path) => {
      return String(path.split(".").reduce((value, key) => value?.[key], row));
    });
}

class Containing {
  constructor(fields) {
    this.fields = fields;
  }
  matches(value) {
    return Object.entries(this.fields).every(([key, wanted]) =>
      isDeepStrictEqual(value?.[key], wanted),
    );
  }
}

const checks = {
  toBe: (value, wanted) => Object.is(value, wanted),
  toEqual: (value, wanted) => isDeepStrictEqual(value, wanted),
  toContain: (value, wanted) => value.includes(wanted),
  toMatchObject: (value, wanted) => new Containing(wanted).matches(value),
  toBeGreaterThan: (value, wanted) => value > wanted,
  toBeLessThan: (value, wanted) => value < wanted,
  toBeLessThanOrEqual: (value, wanted) => value <= wanted,
  toBeCloseTo: (value, wanted, digits = 2) => Math.abs(value - wanted) < 10 ** -digits / 2,
  toThrow: (call, wanted) => {
    try {
      call();
    } catch (error) {
      if (wanted instanceof Containing) return wanted.matches(error);
      return wanted === undefined || error.message.includes(wanted);
    }
    return false;
  },
};

/** A few of vitest's expectations. */
export function expect(value) {
  const bound = (negated) =>
    Object.fromEntries(
      Object.entries(checks).map(([name, check]) => [
        name,
        (wanted, ...more) => {
          if (check(value, wanted, ...more) === !negated) return;
          const not = negated ? "not " : "";
          throw new Error(`expected ${shown(value)} ${not}${name} ${shown(wanted)}`);
        },
      ]),
    );
  const rejects = { toThrow: () => expectRejection(value) };
  return { ...bound(false), not: bound(true), rejects };
}

async function expectRejection(promise) {
  const isRejected = await promise.then(
    () => false,
    () => true,
  );
  if (!isRejected) throw new Error("expected the promise to be rejected");
}

/** Asks again until it is so, or too late. */
expect.poll = (ask, { timeout = 1000 } = {}) =>
  Object.fromEntries(
    Object.entries(checks).map(([name, check]) => [
      name,
      async (...wanted) => {
        const end = performance.now() + timeout;
        while (!check(await ask(), ...wanted) && performance.now() < end) await sleep(20);
        expect(await ask())[name](...wanted);
      },
    ]),
  );

expect.objectContaining = (fields) => new Containing(fields);

function shown(value) {
  const text = typeof value === "function" ? "a call" : (JSON.stringify(value) ?? String(value));
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}

/**
 * Runs everything that was declared and matches `only`. Resolves to the number of failures; that
 * nothing matches is one.
 */
export async function runSuites({ only, verbose }) {
  let failed = 0;
  let ran = 0;
  for (const suite of root.children) {
    const counts = { passed: 0, failed: 0 };
    const started = performance.now();
    await runSuite(suite, suite.name, { only, verbose, counts });
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    console.log(`${suite.name}: ${counts.passed} passed, ${counts.failed} failed, ${seconds} s`);
    failed += counts.failed;
    ran += counts.passed + counts.failed;
  }
  if (ran === 0) console.error(`Cannot check: nothing is called like ${only}`);
  return ran === 0 ? 1 : failed;
}

/** Whether a suite has a test to run; without one its preparations are left out, too. */
function isWanted(suite, path, only) {
  return suite.children.some((child) => {
    const name = `${path} > ${child.name}`;
    return child instanceof Suite ? isWanted(child, name, only) : (only?.test(name) ?? true);
  });
}

async function runSuite(suite, path, options) {
  if (!isWanted(suite, path, options.only)) return;
  for (const run of suite.before) await run();
  for (const child of suite.children) {
    const name = `${path} > ${child.name}`;
    if (child instanceof Suite) await runSuite(child, name, options);
    else if (options.only?.test(name) ?? true) await runTest(child, name, options);
  }
  for (const run of suite.after) await run();
}

async function runTest({ run }, name, { verbose, counts }) {
  const started = performance.now();
  try {
    await run();
    counts.passed++;
    if (verbose) console.log(`passed ${name}, ${(performance.now() - started).toFixed(0)} ms`);
  } catch (error) {
    counts.failed++;
    console.log(`FAILED ${name}: ${error.message}`);
    if (verbose) console.log(error.stack);
    // A broken context fails every call from here on.
    if (error.code === "DEVICE_FAILED") process.exit(1);
  } finally {
    const after = finished;
    finished = [];
    for (const end of after) await end();
  }
}
