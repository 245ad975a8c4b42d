import { chainOf, Lookup, LookupSource } from "#speculative";
import { LookupDrafts } from "../../src/engine/loop/lookup-drafts.ts";
import type { SequenceTask } from "../../src/engine/loop/sequence-task.ts";

/** The task of a sequence with a draft of three tokens, whose next ones are looked up in nothing. */
export function lookupTask(): SequenceTask {
  return {
    ...{ index: 0, sampling: null, beamCandidates: 0, promptLogprobs: null, promptLogits: null },
    ...{ sampledRow: -1, hiddenPool: null, computesOnly: false, draft: chainOf(0, [1, 2, 3]) },
    drafter: new LookupDrafts("lookup", new Lookup(new LookupSource(new Int32Array())), {
      length: 8,
      width: 1,
    }),
  };
}
