/** An engine without threads, text and queues between: each step is the caller's. */
import { systemClock, systemTimer } from "../dist/base/index.js";
import { parseEngineOptions } from "../dist/engine/protocol/config.js";
import { loadEngine } from "../dist/engine/thread/load-engine.js";
import { SamplingParams } from "../dist/sampling/index.js";

/**
 * Gives `use` an engine for as long as it takes. `options` are those of `LLM.load`; `blocks` says
 * how many the device (`pool`), host memory and the disk have room for.
 */
export async function withEngine({ path, options, blocks }, use) {
  const bytesPerBlock = await blockBytes(path, options);
  const kvCache = {
    ...options.kvCache,
    eventBufferMax: 0,
    poolBytes: blocks.pool * bytesPerBlock,
    hostCacheBytes: (blocks.host ?? 0) * bytesPerBlock,
    diskCacheBytes: (blocks.disk ?? 0) * bytesPerBlock,
  };
  const { loaded, waker } = await load(path, { ...options, kvCache });
  try {
    return await use(new BareEngine(loaded, waker));
  } finally {
    await close(loaded);
  }
}

/** The engine itself, with a pool for so many blocks; give it back with `close`. */
export async function openEngine({ path, options, blocks }) {
  const poolBytes = blocks * (await blockBytes(path, options));
  const { loaded } = await load(path, { ...options, kvCache: { ...options.kvCache, poolBytes } });
  return { engine: loaded.engine, device: loaded.device, close: () => close(loaded) };
}

/** The device alone knows how many bytes a block takes. */
async function blockBytes(path, options) {
  const kvCache = { ...options.kvCache, eventBufferMax: 0, poolBytes: 2 ** 26 };
  const probe = await load(path, { ...options, kvCache });
  await close(probe.loaded);
  return probe.loaded.info.bytesPerBlock;
}

async function load(path, options) {
  const waker = { wake: () => {} };
  const context = {
    clock: systemClock,
    timer: systemTimer,
    warn: (message) => process.stderr.write(`${message}\n`),
    onProgress: () => {},
    onWake: () => waker.wake(),
  };
  const speculative = { kind: "off" };
  const message = { type: "load", path, options: parseEngineOptions({ speculative, ...options }) };
  return { loaded: await loadEngine(message, context), waker };
}

async function close({ engine, memory, device }) {
  await engine.dispose();
  await memory.close();
  device.dispose();
}

class BareEngine {
  #loaded;
  #waker;
  #keys = 0;

  constructor(loaded, waker) {
    this.#loaded = loaded;
    this.#waker = waker;
  }

  get info() {
    return this.#loaded.info;
  }

  /** What was measured to cost what, as the scheduler asks it. */
  get cost() {
    return this.#loaded.memory.cost;
  }

  /** What was moved since the start. */
  get moves() {
    return this.#loaded.memory.stats();
  }

  /** The cache's own counters. */
  get cacheStats() {
    return this.#loaded.memory.cache.stats();
  }

  get stats() {
    return this.#loaded.engine.stats();
  }

  /**
   * Continues prompts until all have `outputTokens` greedy tokens. Returns the seconds to the first
   * token of each, from when all were given, and each step's report with its own seconds.
   */
  async run(prompts, outputTokens) {
    const { engine } = this.#loaded;
    const started = performance.now();
    const firstSeconds = new Map();
    const keys = prompts.map((promptTokenIds) => this.#add(promptTokenIds, outputTokens));
    const open = new Set(keys);
    const steps = [];
    while (open.size > 0) {
      const awake = new Promise((resolve) => {
        this.#waker.wake = resolve;
      });
      const begun = performance.now();
      const output = await engine.step();
      if (output === null) {
        await awake;
        continue;
      }
      if (output.failures.length > 0) throw new Error(output.failures[0].error.message);
      const now = performance.now();
      steps.push({ ...output.report, ms: now - begun });
      for (const { key, finishReason } of output.outputs) {
        if (!firstSeconds.has(key)) firstSeconds.set(key, (now - started) / 1000);
        if (finishReason !== null) open.delete(key);
      }
    }
    return { firstSeconds: keys.map((key) => firstSeconds.get(key)), steps };
  }

  #add(promptTokenIds, outputTokens) {
    const key = ++this.#keys;
    this.#loaded.engine.add({
      key,
      requestId: `request-${key}`,
      promptTokenIds: Int32Array.from(promptTokenIds),
      params: SamplingParams.parse({
        temperature: 0,
        maxTokens: outputTokens,
        minTokens: outputTokens,
        ignoreEos: true,
      }),
      seed: 1n,
      cacheSalt: null,
      retention: null,
      priority: 0,
      badWordTokenIds: [],
      thinking: null,
      promptLogits: false,
      draftShape: null,
      predictedTokenIds: null,
    });
    return key;
  }

  /** Waits until nothing is under way between host memory and disk: jobs hold their blocks. */
  async settle() {
    while (this.cacheStats.levels.some(({ held }) => held > 0)) {
      await new Promise((resolve) => setTimeout(resolve, 2));
      await this.#loaded.engine.step();
    }
  }
}

/** Prompts that share nothing: `tokens` draws from the vocabulary. */
export function createPrompts(vocabularySize) {
  let state = 12345;
  return (tokens) =>
    Array.from({ length: tokens }, () => {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0;
      return 16 + ((state >>> 8) % (vocabularySize - 16));
    });
}
