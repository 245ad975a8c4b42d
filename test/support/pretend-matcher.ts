import type { GrammarMatcher } from "#sampling";

/** A matcher that allows everything and never ends, but for what a test replaces. */
export function pretendMatcher(replaced: Partial<GrammarMatcher> = {}): GrammarMatcher {
  return {
    fillBitmask: async (row) => {
      row.fill(0xffffffff);
    },
    fillAhead: (row) => {
      row.fill(0xffffffff);
    },
    forced: () => new Int32Array(0),
    accept: () => true,
    rollback: () => {},
    isTerminated: () => false,
    ends: () => false,
    slow: false,
    quick: true,
    dispose: () => {},
    ...replaced,
  };
}
