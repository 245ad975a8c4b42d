/** The cases of bench/gpu/cases, and one of them run on poisoned memory beside its definition. */
import { readdirSync } from "node:fs";
import { CudaDevice } from "../../dist/devices/cuda/cuda-device.js";
import { smallCases } from "./small-cases.mjs";

/** NaN in every float format, -1 in integers. */
const poison = 0xff;

/** How many cases stand for an op that names no small ones. */
const firstCases = 2;

/** Cases in the order of their files. `only`: of these ops, null for all; `small`: few of each. */
export async function listCases({ only, small }) {
  const files = readdirSync(new URL("./cases/", import.meta.url)).sort();
  const modules = await Promise.all(files.map((file) => import(`./cases/${file}`)));
  const all = modules.flatMap((module) => [...module.cases()]);
  const wanted = all.filter(({ op }) => only?.includes(op) ?? true);
  return small ? smallOnes(wanted) : wanted;
}

/** The cases that small-cases.mjs names, and the first of every other op. */
function smallOnes(cases) {
  const taken = new Map();
  return cases.filter(({ op, name }) => {
    if (op in smallCases) return smallCases[op].includes(name);
    taken.set(op, (taken.get(op) ?? 0) + 1);
    return taken.get(op) <= firstCases;
  });
}

/** The device under test. All its new memory is poisoned. */
export function openTested(settings, options = {}) {
  return CudaDevice.open({ settings, freshByte: poison, warn: console.warn, ...options });
}

/**
 * What one case found, in seconds; an exception is a failure like any other. `broken`: every call
 * from here on fails.
 */
export async function runCase(pair, { op, name, run }) {
  const begun = performance.now();
  const found = { verdicts: [], stack: null, broken: false };
  try {
    found.verdicts = await run(pair);
    pair.release();
  } catch (error) {
    const { message, stack, code } = error;
    const excess = Number.POSITIVE_INFINITY;
    found.verdicts = [{ error: Number.NaN, excess, detail: message }];
    [found.stack, found.broken] = [stack, code === "DEVICE_FAILED"];
    releaseWhatCan(pair);
  }
  return { op, name, ...found, seconds: (performance.now() - begun) / 1000 };
}

/** Behind a failure: what cannot be released either was said before. */
function releaseWhatCan(pair) {
  try {
    pair.release();
  } catch {
    // The case has failed already.
  }
}
