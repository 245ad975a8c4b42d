import { describe, expect, test } from "vitest";
import { FleetIndex } from "#cluster";
import { SimClock } from "#simulator";
import { differenceOf, TokenWatch } from "../../../src/cluster/router/token-watch.ts";

const scope = { model: "m", blockTokens: 16, salt: null, lora: null, group: 0 };
const usage = { promptTokens: 100, cachedTokens: 0 };

/** A worker whose events name the tokens that `announce` makes of a prompt's. */
function start(announce: (tokens: Uint32Array) => Uint32Array) {
  const clock = new SimClock();
  const said: string[] = [];
  const beginnings: Uint32Array[] = [];
  const index: FleetIndex = new FleetIndex({
    clock,
    onStored: (worker, keys) => watch.stored(worker, keys),
  });
  const watch = new TokenWatch({
    clock,
    unknownParents: () => index.stats().exact.unknownParents,
    beginningsOf: () => beginnings,
    say: (line) => said.push(line),
  });
  const number = index.join({ announces: true });
  let names = 1;
  const events = (tokens: Uint32Array, parent: Uint32Array | null = null) => {
    const count = Math.floor(tokens.length / 16);
    const hashes = Uint32Array.from({ length: 2 * count }, () => names++);
    beginnings.push(tokens.slice(0, 16));
    index.apply(number, [
      {
        type: "stored",
        scope,
        level: 0,
        parent,
        names: hashes,
        tokens: tokens.slice(0, 16 * count),
      },
    ]);
  };
  const send = (first: number) => {
    const tokens = Uint32Array.from({ length: 100 }, (_, at) => first * 1000 + at);
    const prompt = index.blocksOf(scope, tokens);
    const ended = watch.routed({ workerId: "w", number, prompt, tokens });
    return { tokens, ended };
  };
  const serve = (first: number, cachedTokens = 0) => {
    const { tokens, ended } = send(first);
    events(announce(tokens));
    ended({ ...usage, cachedTokens }, true);
  };
  const judge = () => {
    clock.run(clock.nowMs() + 5000);
    watch.look();
    return { ...watch.counts };
  };
  return { watch, said, send, serve, judge, events, number };
}

describe("tokens that are announced", () => {
  test("[CL146] prompts whose blocks come as computed are confirmed, also before their end", () => {
    const { serve, judge, said } = start((tokens) => tokens);
    for (let at = 0; at < 10; at++) serve(at);
    expect(judge()).toEqual({ confirmed: 10, differing: 0 });
    expect(said).toEqual([]);
  });

  test("[CL146] one more token at the beginning is counted, and said once with its place", () => {
    const { serve, judge, said } = start((tokens) => Uint32Array.from([1, ...tokens]));
    for (let at = 0; at < 30; at++) serve(at);
    expect(judge()).toEqual({ confirmed: 0, differing: 30 });
    expect(said).toHaveLength(1);
    expect(said[0]).toContain("they begin with 1 tokens more than here");
    expect(said[0]).not.toMatch(/\b1000\b/);
  });

  test("[CL146] what says nothing is not counted: silence, cached prompts, failures, unknown parents", () => {
    const { watch, send, judge, events } = start((tokens) => tokens);
    send(1).ended(usage, true);
    expect(judge()).toEqual({ confirmed: 0, differing: 0 });
    const cached = send(2);
    events(Uint32Array.from({ length: 32 }, () => 5));
    cached.ended({ promptTokens: 100, cachedTokens: 96 }, true);
    const failed = send(3);
    events(Uint32Array.from({ length: 32 }, () => 6));
    failed.ended(null, false);
    const below = send(4);
    events(Uint32Array.from({ length: 32 }, () => 7));
    events(below.tokens, Uint32Array.from([9, 9]));
    below.ended(usage, true);
    expect(judge()).toEqual({ confirmed: 0, differing: 0 });
    expect(watch.counts.differing).toBe(0);
  });

  test("[CL146] watching is bounded, and ends with its worker", () => {
    const { watch, send, judge, events, number } = start((tokens) => tokens);
    const many = Array.from({ length: 10_000 }, (_, at) => send(at));
    for (const { ended } of many) ended(usage, true);
    events(Uint32Array.from({ length: 32 }, () => 5));
    watch.left(number);
    expect(judge().differing).toBeLessThanOrEqual(32);
    const { tokens, ended } = send(20_000);
    events(tokens);
    ended(usage, true);
    expect(judge().confirmed).toBe(1);
  });
});

describe("differences in words", () => {
  const own = Uint32Array.from({ length: 40 }, (_, at) => 100 + at);
  test.each([
    ["they have other tokens", Uint32Array.from({ length: 16 }, () => 3)],
    ["they begin with 2 tokens fewer than here", own.slice(2, 18)],
    ["1 of their first 16 tokens are others", own.slice(0, 16).fill(9, 5, 6)],
    ["they begin alike, and have another scope or go on otherwise", own.slice(0, 16)],
  ])("[CL146] %s", (wanted, announced) => {
    expect(differenceOf(own, [Uint32Array.from({ length: 16 }, () => 1), announced])).toBe(wanted);
  });
});
