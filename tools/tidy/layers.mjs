/**
 * The layers of src/, low to high: which folder may import which. ARCHITECTURE.md prints this table
 * and `tidy` keeps the two equal.
 *
 * @type {Readonly<Record<string, readonly string[]>>}
 */
export const LAYERS = {
  base: [],
  tensor: ["base"],
  tokenizer: ["base", "tensor"],
  checkpoint: ["base", "tensor"],
  devices: ["base", "tensor"],
  kvcache: ["base"],
  models: ["base", "tensor", "devices"],
  sampling: ["base", "tensor", "devices"],
  scheduler: ["base", "kvcache"],
  engine: [
    "base",
    "tensor",
    "tokenizer",
    "checkpoint",
    "devices",
    "kvcache",
    "models",
    "sampling",
    "scheduler",
  ],
  server: ["base", "kvcache", "engine"],
  simulator: ["base", "kvcache", "scheduler"],
  cli: ["base", "tensor", "checkpoint", "devices", "kvcache", "engine", "server", "simulator"],
};

/** Folders that talk to the outside: time, chance, timers, console and environment are theirs. */
export const EDGES = ["server", "cli"];
