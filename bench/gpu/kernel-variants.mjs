/**
 * Other ways of one kernel, by name: its sources with some text replaced, compiled anew. So that a
 * choice in a kernel is measured where it counts, and its sources hold the one that won.
 */
const { readKernel } = await import("../../dist/devices/cuda/kernels/kernel-sources.js");
const { compileOptions } = await import("../../dist/devices/cuda/kernels/kernels.js");
const { architectureOf } = await import("../../dist/devices/cuda/driver/gpu.js");
const { KernelModule } = await import("../../dist/devices/cuda/kernels/kernel-module.js");
const { Nvrtc } = await import("../../dist/devices/cuda/kernels/nvrtc.js");

/** What prefill attention can do otherwise: text in its sources, and what stands there instead. */
const prefillWays = {
  "half of exp2 by a polynomial": ["kPolynomialEvery = 0", "kPolynomialEvery = 2"],
  "a quarter of exp2 by a polynomial": ["kPolynomialEvery = 0", "kPolynomialEvery = 4"],
  "an eighth of exp2 by a polynomial": ["kPolynomialEvery = 0", "kPolynomialEvery = 8"],
  "3 stages of keys": ["kKeyStages = 2", "kKeyStages = 3"],
  "3 stages of values": ["kValueStages = 2", "kValueStages = 3"],
  "a head at a time": ["kHeadsTogether = 1 << 16", "kHeadsTogether = 1"],
  "2 heads at a time": ["kHeadsTogether = 1 << 16", "kHeadsTogether = 2"],
  "4 heads at a time": ["kHeadsTogether = 1 << 16", "kHeadsTogether = 4"],
};

/** Those that are measured where none is asked for: one of every kind. */
export const usualPrefillWays = [
  "a quarter of exp2 by a polynomial",
  "3 stages of keys",
  "3 stages of values",
  "a head at a time",
];

/** What is replaced for prefill attention by the ways named between the signs, together. */
export function prefillReplacements(names) {
  return names.split(" + ").map((name) => {
    const replacement = prefillWays[name];
    if (replacement !== undefined) return replacement;
    throw new Error(`Cannot find "${name}" among ${Object.keys(prefillWays).join(", ")}`);
  });
}

/** Exponents of another base: who compares results must notice. */
export const wrongPrefill = [["scale) * kLog2OfE)", "scale) * 1.0f)"]];

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
  #built;

  /** Kernel `name` of file `file`, or several. */
  constructor(session, settings, { file, name, names = [name] }) {
    this.#session = session;
    this.#nvrtc = Nvrtc.open(settings, session.driver.version);
    this.#source = readKernel(file);
    this.#names = names;
    this.#built = { ...session.context.kernels };
  }

  /** Compiles the file with other text; without any, what was built takes its place again. */
  use(replacements) {
    const { context } = this.#session;
    const kernels = replacements.length === 0 ? this.#built : this.#compiled(replacements);
    for (const name of this.#names) context.kernels[name] = kernels[name];
  }

  /** The file's kernels by name. */
  #compiled(replacements) {
    const { driver, gpu } = this.#session;
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
    return Object.fromEntries(this.#names.map((name) => [name, module.kernel(name)]));
  }
}
