/** Lookup beside a network, and what is drafted where the options leave that open. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { SamplingParams, SequenceSampling } from "#sampling";
import { chainOf, Lookup, LookupSource } from "#speculative";
import { withAutoDrafts } from "../../src/engine/caller/auto-drafts.ts";
import { LookupDrafts } from "../../src/engine/loop/lookup-drafts.ts";
import { MixedDrafts } from "../../src/engine/loop/mixed-drafts.ts";
import { ModelDrafts } from "../../src/engine/loop/model-drafts.ts";
import { parseEngineOptions } from "../../src/engine/protocol/config.ts";
import { Harness } from "../scheduler/harness.ts";

/** A text in which 1, 2 was followed by 3, 4; and another without a pair that occurs twice. */
const found = [1, 2, 3, 4, 1, 2];
const unfound = [1, 2, 3, 4, 5, 2];

/** A sequence of these tokens with both drafters, and what they are expected to give. */
function mixed(tokenIds: readonly number[], expected: Readonly<Record<string, number>>) {
  const sequence = new Harness().add(tokenIds);
  const lookup = new Lookup(new LookupSource(Int32Array.from(tokenIds)));
  const drafts = new MixedDrafts(
    new LookupDrafts("lookup", lookup, { length: 8, width: 1 }),
    new ModelDrafts("network", { length: 2, width: 1 }),
    2,
  );
  const params = SamplingParams.parse({});
  const options = { params, seed: 1, promptTokens: [1], vocabularySize: 10, endTokenIds: [] };
  const context = {
    ...{ sampling: new SequenceSampling(options), foresees: true, rests: false },
    ...{ adaptive: false, triesNetwork: false },
    expected: (_: unknown, { kind }: { readonly kind: string }) => expected[kind] ?? 0,
  };
  const made = chainOf(2, [9, 9]);
  const drafted = (by: typeof made | null, triesNetwork: boolean) =>
    drafts.next(sequence, by, { ...context, triesNetwork });
  return {
    drafts,
    next: (by: typeof made | null = made) => drafted(by, false),
    trying: (by: typeof made | null = made) => drafted(by, true),
  };
}

describe("[SP27] lookup beside a network", () => {
  test("the draft is verified that is expected to give more tokens", () => {
    const { drafts, next } = mixed(found, { lookup: 2, network: 1 });
    expect([...(next()?.tokens ?? [])].slice(0, 3)).toEqual([2, 3, 4]);
    expect([drafts.kind, drafts.whole?.kind]).toEqual(["lookup", "network"]);
    const other = mixed(found, { lookup: 1, network: 2 });
    expect(other.next()).toEqual(chainOf(2, [9, 9]));
    expect([other.drafts.kind, other.drafts.likelyTokens]).toEqual(["network", 2]);
  });

  test("where one has nothing the other drafts", () => {
    expect(mixed(unfound, { lookup: 2, network: 1 }).next()).toEqual(chainOf(2, [9, 9]));
    expect(mixed(found, { lookup: 1, network: 2 }).next(null)?.tokens[1]).toBe(3);
    expect(mixed(unfound, { lookup: 2, network: 1 }).next(null)).toBeNull();
  });

  test("the network rests while lookup is right for as many tokens as it drafts", () => {
    const { drafts, next } = mixed(found, { lookup: 2, network: 1 });
    expect(drafts.begin()).toEqual({ length: 2, width: 1 });
    next();
    drafts.proposed(4);
    drafts.verified(4, 2);
    expect(drafts.begin()).toBeNull();
    next(null);
    drafts.proposed(4);
    expect(drafts.active).toBe(true);
    drafts.verified(4, 1);
    expect(drafts.begin()).toEqual({ length: 2, width: 1 });
  });
});

test("[SP36] a network that is tried has its draft verified", () => {
  const { drafts, trying } = mixed(found, { lookup: 2, network: 1 });
  expect(trying()).toEqual(chainOf(2, [9, 9]));
  expect(drafts.kind).toBe("network");
  // It may have drafted nothing.
  expect(mixed(found, { lookup: 2, network: 1 }).trying(null)?.tokens[1]).toBe(3);
});

describe("[SP27] auto", () => {
  const folder = mkdtempSync(join(tmpdir(), "perigee-auto-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const auto = parseEngineOptions({ speculative: { kind: "auto" } });

  test("takes the first network of the model's folder beside lookup, and lookup alone without", () => {
    const taken = (path: string) => withAutoDrafts(auto, path).speculative;
    expect(taken(folder)).toMatchObject({ kind: "lookup", mixed: true, model: null });
    for (const kind of ["medusa", "redrafter"] as const) {
      mkdirSync(join(folder, "drafters", kind), { recursive: true });
      expect(taken(folder)).toMatchObject({ kind, mixed: true, model: null });
    }
    const file = join(folder, "model.gguf");
    writeFileSync(file, "");
    expect(taken(file)).toMatchObject({ kind: "redrafter" });
  });

  test("other kinds stay as they are, and no folder is named beside it", () => {
    for (const kind of ["off", "lookup", "medusa"] as const) {
      const options = parseEngineOptions({ speculative: { kind } });
      expect(withAutoDrafts(options, folder)).toBe(options);
    }
    const speculative = { kind: "auto", model: folder } as const;
    expect(() => parseEngineOptions({ speculative })).toThrow("must be left out with kind auto");
  });
});
