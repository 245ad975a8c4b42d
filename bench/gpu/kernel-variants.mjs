/**
 * Other ways of one kernel, by name: its sources with some text replaced, compiled anew. So that a
 * choice in a kernel is measured where it counts, and its sources hold the one that won.
 */
const { readKernel } = await import("../../dist/devices/cuda/kernel-sources.js");
const { compileOptions } = await import("../../dist/devices/cuda/kernels.js");
const { architectureOf } = await import("../../dist/devices/cuda/gpu.js");
const { KernelModule } = await import("../../dist/devices/cuda/kernel-module.js");
const { Nvrtc } = await import("../../dist/devices/cuda/nvrtc.js");

/** Text, in the kernel's file or any of its headers, and what stands there instead. */
export const prefillVariants = {
  "as it is": [],
  "3 stages": [
    ["constexpr int kStages = 2;", "constexpr int kStages = 3;"],
    ["constexpr int kQueries = 2;", "constexpr int kQueries = 1;"],
  ],
  "no turns": [
    ["meet<kConsumers * kWarpgroup>(kTurnBarrier + warpgroup);", ""],
    ["arriveAt<kConsumers * kWarpgroup>(kTurnBarrier + to);", ""],
  ],
  "sums before softmax": [
    ["computeFirst(softmax.sum[0]);", ""],
    ["computeFirst(softmax.sum[1]);", ""],
  ],
  "shrinks where it must": [
    [
      "shrink.apply(sums);",
      "if (__any_sync(0xffffffffu, shrink.factor[0] != 1.0f || shrink.factor[1] != 1.0f)) {\n" +
        "shrink.apply(sums);\n}",
    ],
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

/** Puts variants of one kernel in the place of what the session loaded. */
export class KernelVariants {
  #session;
  #nvrtc;
  #source;
  #name;

  /** Kernel `name` of file `file`. */
  constructor(session, settings, { file, name }) {
    this.#session = session;
    this.#nvrtc = Nvrtc.open(settings, session.driver.version);
    this.#source = readKernel(file);
    this.#name = name;
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
    context.kernels[this.#name] = new KernelModule(driver, cubin).kernel(this.#name);
  }
}
