/**
 * Other ways of one kernel, by name: its sources with some text replaced, compiled anew. So that a
 * choice in a kernel is measured where it counts, and its sources hold the one that won.
 */
const { readKernel } = await import("../../dist/devices/cuda/kernel-sources.js");
const { compileOptions } = await import("../../dist/devices/cuda/kernels.js");
const { architectureOf } = await import("../../dist/devices/cuda/gpu.js");
const { KernelModule } = await import("../../dist/devices/cuda/kernel-module.js");
const { Nvrtc } = await import("../../dist/devices/cuda/nvrtc.js");

/** What can be done otherwise: text in the kernel's sources, and what stands there instead. */
const prefillWays = {
  turns: [["kTakesTurns = false", "kTakesTurns = true"]],
  "softmax first": [["kSoftmaxFirst = false", "kSoftmaxFirst = true"]],
  "every maximum shrinks": [["kSlack = 8.0f", "kSlack = 0.0f"]],
  "a row behind the other": [
    [
      "shrink.factor[which] = raise(scores, which);\n#pragma unroll\n" +
        "    for (int which = 0; which < 2; ++which) weigh(",
      "{\nshrink.factor[which] = raise(scores, which);\nweigh(",
    ],
    [
      "weigh(scores, which, shrink.factor[which]);",
      "weigh(scores, which, shrink.factor[which]);\n}",
    ],
  ],
  "half of exp2 by products": [["kProductsEvery = 0", "kProductsEvery = 2"]],
  "a quarter of exp2 by products": [["kProductsEvery = 0", "kProductsEvery = 4"]],
  "an eighth of exp2 by products": [["kProductsEvery = 0", "kProductsEvery = 8"]],
  "3 stages of keys": [["kKeyStages = 2", "kKeyStages = 3"]],
  "3 stages of values": [["kValueStages = 2", "kValueStages = 3"]],
  "a head at a time": [["kHeadsTogether = 1 << 16", "kHeadsTogether = 1"]],
  "2 heads at a time": [["kHeadsTogether = 1 << 16", "kHeadsTogether = 2"]],
  "4 heads at a time": [["kHeadsTogether = 1 << 16", "kHeadsTogether = 4"]],
  "queries stay in the cache": [
    ["__ldcs(reinterpret_cast<const float4*>(from))", "*reinterpret_cast<const float4*>(from)"],
  ],
};

/** Ways of prefill attention by name: those named between the signs, together. */
export const prefillVariants = Object.fromEntries(
  [
    "turns",
    "softmax first",
    "turns + softmax first",
    "every maximum shrinks",
    "every maximum shrinks + turns",
    "every maximum shrinks + softmax first",
    "every maximum shrinks + turns + softmax first",
    "a row behind the other",
    "half of exp2 by products",
    "a quarter of exp2 by products",
    "an eighth of exp2 by products",
    "a quarter of exp2 by products + softmax first",
    "a quarter of exp2 by products + turns + softmax first",
    "3 stages of keys",
    "3 stages of values",
    "a head at a time",
    "2 heads at a time",
    "4 heads at a time",
    "a head at a time + 3 stages of keys",
    "queries stay in the cache",
  ].map((name) => [name, name.split(" + ").flatMap((way) => prefillWays[way])]),
);

/** Exponents of another base: who compares results must notice. */
export const wrongPrefill = [["scale) * kLog2OfE)", "scale) * 1.0f)"]];

/** Ways of the linears in tiles (native/cuda/linear-tiles.h), by name. */
export const tilesVariants = {
  "as it is": [],
  "no clusters": [["kClusterBlocks = 2;", "kClusterBlocks = 1;"]],
  "128 columns": [["kStagePanels = 1;", "kStagePanels = 2;"]],
  "any cut": [["grain = stages % work.grains == 0 ? stages / work.grains : 1;", "grain = 1;"]],
  "whole tiles": [
    ["grain = stages % work.grains == 0 ? stages / work.grains : 1;", "grain = stages;"],
  ],
  "the last adds up": [["kBlocksMeet = true;", "kBlocksMeet = false;"]],
  "next one early": [
    ["waitForPrevious();\n      letNextStart();", "letNextStart();\n      waitForPrevious();"],
  ],
};

/** `text` with every replacement that is of it; those done are added to `done`. */
function replaced(text, replacements, done) {
  return replacements.reduce((changed, [from, to]) => {
    if (!changed.includes(from)) return changed;
    done.add(from);
    return changed.replaceAll(from, to);
  }, text);
}

/** Puts variants of a file's kernels in the place of what the session loaded. */
export class KernelVariants {
  #session;
  #nvrtc;
  #source;
  #names;

  /** Kernel `name` of file `file`, or several. */
  constructor(session, settings, { file, name, names = [name] }) {
    this.#session = session;
    this.#nvrtc = Nvrtc.open(settings, session.driver.version);
    this.#source = readKernel(file);
    this.#names = names;
  }

  use(replacements) {
    const { driver, gpu, context } = this.#session;
    const done = new Set();
    const { path, text, headers } = this.#source;
    const source = {
      path,
      text: replaced(text, replacements, done),
      headers: Object.fromEntries(
        Object.entries(headers).map(([name, body]) => [name, replaced(body, replacements, done)]),
      ),
    };
    for (const [from] of replacements) {
      if (!done.has(from)) throw new Error(`Cannot find "${from}" in ${path} and its headers`);
    }
    const cubin = this.#nvrtc.compile(source, compileOptions(architectureOf(gpu)));
    const module = new KernelModule(driver, cubin);
    for (const name of this.#names) context.kernels[name] = module.kernel(name);
  }
}
