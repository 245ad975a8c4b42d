/**
 * What the benchmarks of the index have in common: requests of 100 blocks of 16 tokens. A third of
 * each is one of 8 prompts that the whole fleet shares, the rest is one session's.
 */

export const BLOCK_TOKENS = 16;
export const PROMPT_BLOCKS = 100;
export const SHARED_BLOCKS = 33;
export const SESSION_BLOCKS = PROMPT_BLOCKS - SHARED_BLOCKS;
const FAMILIES = 8;
export const scope = { model: "m", blockTokens: BLOCK_TOKENS, salt: null, lora: null, group: 0 };

let state = 1;
/** A whole number below `limit`; the same ones in each run. */
export function below(limit) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * limit);
}

function randomTokens(blocks) {
  const tokens = new Uint32Array(blocks * BLOCK_TOKENS);
  for (let at = 0; at < tokens.length; at++) tokens[at] = below(128_000);
  return tokens;
}

/** Names as engines make them: any 64 bits. */
function namesFrom(first, count) {
  const names = new Uint32Array(count * 2);
  for (let at = 0; at < count; at++) {
    names[2 * at] = Math.imul(first + at, 0x9e3779b1);
    names[2 * at + 1] = Math.imul(first + at, 0x85ebca6b) ^ 0x5bd1e995;
  }
  return names;
}

const shared = Array.from({ length: FAMILIES }, (_, family) => ({
  tokens: randomTokens(SHARED_BLOCKS),
  names: namesFrom(0xf0000000 + family * 1000, SHARED_BLOCKS),
}));

/** The prompts that the whole fleet shares. */
export const sharedTokens = shared.map(({ tokens }) => tokens);

/** Lets workers join that have the shared prompts. */
export function storeShared(index, workers) {
  for (let worker = 0; worker < workers; worker++) {
    index.join();
    for (const { tokens, names } of shared) {
      index.apply(worker, [{ type: "stored", scope, level: 0, parent: null, names, tokens }]);
    }
  }
}

let sessions = 0;
/** A prompt, the change that stores its own part, and the one that removes it, at two workers. */
export function makeSession(workers) {
  const { tokens, names: before } = shared[below(FAMILIES)];
  const own = randomTokens(SESSION_BLOCKS);
  const names = namesFrom(sessions++ * SESSION_BLOCKS, SESSION_BLOCKS);
  const prompt = new Uint32Array(PROMPT_BLOCKS * BLOCK_TOKENS);
  prompt.set(tokens);
  prompt.set(own, SHARED_BLOCKS * BLOCK_TOKENS);
  const first = below(workers);
  return {
    prompt,
    holders: [first, (first + 1 + below(workers - 1)) % workers],
    stored: { type: "stored", scope, level: 0, parent: before.slice(-2), names, tokens: own },
    removed: { type: "removed", level: 0, names },
  };
}

/** CPU of this process, so that what else runs on the machine counts less; milliseconds. */
export function cpuMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

export function percentiles(times) {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (part) => round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]);
  return { p50: at(0.5), p99: at(0.99) };
}

export function round(value) {
  return Math.round(value * 100) / 100;
}
