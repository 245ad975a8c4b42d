import { describe, expect, test } from "vitest";
import { chainOf, KindAcceptance, SequenceAcceptance, treeOf } from "#speculative";

describe("[SP20] what is likely to be accepted", () => {
  test("a sequence whose drafts are all confirmed expects long chains to be", () => {
    const kind = new KindAcceptance();
    const acceptance = new SequenceAcceptance(kind);
    const tree = chainOf(1, [2, 3, 4, 5]);
    const before = acceptance.survivals(tree, { firstBranch: 4 });
    expect([...before]).toEqual([...before].sort((a, b) => b - a));
    for (let round = 0; round < 30; round++) {
      acceptance.verified({ tree, firstBranch: 4, drafted: 4, tokenIds: [2, 3, 4, 5, 6] });
    }
    expect(acceptance.survivals(tree, { firstBranch: 4 }).at(-1)).toBeGreaterThan(0.7);
    expect(before.at(-1)).toBeLessThan(0.2);
  });

  test("one whose first tokens are wrong expects nothing, and others of the kind little", () => {
    const kind = new KindAcceptance();
    const acceptance = new SequenceAcceptance(kind);
    const tree = chainOf(1, [2, 3]);
    for (let round = 0; round < 100; round++) {
      acceptance.verified({ tree, firstBranch: 2, drafted: 2, tokenIds: [9] });
    }
    expect(acceptance.survivals(tree, { firstBranch: 2 })[0]).toBeLessThan(0.05);
    expect(new SequenceAcceptance(kind).survivals(tree, { firstBranch: 2 })[0]).toBeLessThan(0.05);
  });

  test("depths behind a wrong token teach nothing", () => {
    const acceptance = new SequenceAcceptance(new KindAcceptance());
    const tree = chainOf(1, [2, 3, 4]);
    for (let round = 0; round < 50; round++) {
      acceptance.verified({ tree, firstBranch: 3, drafted: 3, tokenIds: [2, 9] });
    }
    const [first = 0, second = 0, third = 0] = acceptance.survivals(tree, { firstBranch: 3 });
    expect(first).toBeGreaterThan(0.9);
    expect(second).toBeLessThan(0.1);
    // Nothing is known of it but the depth before, and what is expected of any draft.
    expect(third / second).toBeCloseTo((0.6 + second / first) / 2, 5);
  });

  test("branches beside the likeliest one are counted for themselves", () => {
    const acceptance = new SequenceAcceptance(new KindAcceptance());
    const tree = treeOf(1, [Int32Array.of(2, 3), Int32Array.of(4, 5)], 64);
    for (let round = 0; round < 100; round++) {
      acceptance.verified({ tree, firstBranch: 2, drafted: 4, tokenIds: [4, 5, 6] });
    }
    const found = [...acceptance.survivals(tree, { firstBranch: 2 })];
    expect(found[0]).toBeLessThan(0.1);
    expect(found[2]).toBeGreaterThan(0.9);
    expect(found[3]).toBeGreaterThan(0.9);
  });

  test("nodes that were not verified are not counted", () => {
    const acceptance = new SequenceAcceptance(new KindAcceptance());
    const tree = chainOf(1, [2, 3, 4]);
    const [before = 1] = acceptance.survivals(tree, { firstBranch: 3 });
    acceptance.verified({ tree, firstBranch: 3, drafted: 1, tokenIds: [2, 3] });
    const after = acceptance.survivals(tree, { firstBranch: 3 });
    const [first = 0, second = 0] = after;
    expect(first).toBeGreaterThan(before);
    expect(second / first).toBeCloseTo((0.6 + first) / 2, 9);
  });

  test("of looked-up tokens it is by how many match before them", () => {
    const acceptance = new SequenceAcceptance(new KindAcceptance());
    const tree = chainOf(1, [2, 3]);
    for (let round = 0; round < 50; round++) {
      acceptance.verified({ tree, firstBranch: 2, matched: 2, drafted: 2, tokenIds: [9] });
      acceptance.verified({ tree, firstBranch: 2, matched: 30, drafted: 2, tokenIds: [2, 3, 4] });
    }
    const of = (matched: number) => acceptance.survivals(tree, { firstBranch: 2, matched })[0] ?? 0;
    expect(of(2)).toBeLessThan(0.1);
    expect(of(30)).toBeGreaterThan(0.9);
    expect(of(40)).toBe(of(30));
  });
});

describe("[SP35] what is only compared", () => {
  test("teaches what verifying it would", () => {
    const [verified, followed] = [new KindAcceptance(), new KindAcceptance()].map(
      (kind) => new SequenceAcceptance(kind),
    );
    const tree = chainOf(1, [2, 3, 4, 5]);
    for (let round = 0; round < 20; round++) {
      const matched = 2 + (round % 9);
      verified?.verified({ tree, firstBranch: 4, matched, drafted: 4, tokenIds: [2, 3, 9] });
      // Token by token, as a sequence without drafts grows.
      followed?.followed({ matched, right: 1, ended: false });
      followed?.followed({ matched: matched + 1, right: 1, ended: false });
      followed?.followed({ matched: matched + 2, right: 0, ended: true });
    }
    for (const matched of [2, 5, 12]) {
      const branch = { firstBranch: 4, matched };
      expect(followed?.survivals(tree, branch)).toEqual(verified?.survivals(tree, branch));
    }
  });
});
