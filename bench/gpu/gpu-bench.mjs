/** What every measurement on a GPU begins with: a GPU, or one line that says why there is none. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Ends the process with one line where what must be there is not. */
export function giveUp(message) {
  console.error(message);
  process.exit(1);
}

/** Opens with `open`; a missing GPU or library ends the process with its one line. */
export async function openOrGiveUp(open) {
  try {
    return await open();
  } catch (error) {
    if (error?.code === "DEVICE_UNAVAILABLE") return giveUp(error.message);
    throw error;
  }
}

/** Passes warnings on, but for the one that a model without words is bound to give. */
export function warn(message) {
  if (!message.includes("prompts must be token ids")) console.warn(message);
}

/** The built product; without it nothing here runs. */
export async function requireBuild() {
  if (existsSync(new URL("../../dist/index.js", import.meta.url))) return;
  giveUp("Cannot find dist: run npm run build first");
}

/** Both speeds of a GPU, in a line; the second one has a reason where it is unknown. */
export function ceilingsText({ copyGBs, bf16TFLOPs, bf16Unknown }) {
  const products =
    bf16TFLOPs === null ? `unknown: ${bf16Unknown}` : `${bf16TFLOPs.toFixed(0)} TFLOP/s`;
  return `copy ${copyGBs.toFixed(0)} GB/s, bf16 product ${products}`;
}

/** The largest difference of two lists of numbers; NaN where one is. */
export function difference(wanted, actual) {
  let worst = 0;
  for (let i = 0; i < wanted.length; i++) {
    const error = Math.abs(actual[i] - wanted[i]);
    if (Number.isNaN(error)) return error;
    if (error > worst) worst = error;
  }
  return worst;
}

/** Flags as results name them: without where they go, and with folders of this checkout as such. */
export function namedFlags({ json: _, model, drafter, ...flags }) {
  const named = (path) => {
    const folder = relative(root, resolve(path));
    return folder.startsWith("..") ? basename(path) : folder;
  };
  return {
    ...{ model: named(model), ...flags },
    ...(drafter !== undefined && { drafter: named(drafter) }),
  };
}

/** Writes a result where it was asked for. */
export function writeJson(file, result) {
  if (file === undefined) return;
  mkdirSync(dirname(file) || ".", { recursive: true });
  writeFileSync(file, `${JSON.stringify(result, null, 2)}\n`);
}
