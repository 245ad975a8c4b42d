import { assert } from "#base";
import type { EngineOptions } from "./config.ts";
import type { DraftLimits } from "./speculation-info.ts";

/** What is drafted where the options do not say. */
const LOOKUP = { lengthMax: 31, width: 1 };
/** The fastest of the shapes tried with the bundled model's drafters on a CPU. */
const REDRAFTER = { lengthMax: 4, width: 1 };
const MEDUSA = { lengthMax: 3, width: 2 };
/** Of drafters with keys and values of their own: one continuation, which costs least. */
const CHAIN = { lengthMax: 4, width: 1 };
const USUAL = {
  ...{ lookup: LOOKUP, redrafter: REDRAFTER, medusa: MEDUSA },
  ...{ "draft-model": CHAIN, eagle3: CHAIN },
};

/**
 * The drafts that a model is loaded with: those of the wanted kind, which requests have unless they
 * say otherwise, then those that cost nothing to have. None: nothing is drafted.
 */
export function loadedDrafts({ speculative }: EngineOptions): readonly DraftLimits[] {
  const { kind, lengthMax, width } = speculative;
  if (kind === "off") return [];
  assert(kind !== "auto", "Cannot load drafts before it is known which there are");
  const usual = USUAL[kind];
  const wanted = { kind, lengthMax: lengthMax ?? usual.lengthMax, width: width ?? usual.width };
  return kind === "lookup" ? [wanted] : [wanted, { kind: "lookup", ...LOOKUP }];
}

/** The loaded drafts of a kind; null: none are. */
export function draftsOfKind(loaded: readonly DraftLimits[], kind: string): DraftLimits | null {
  return loaded.find((drafts) => drafts.kind === kind) ?? null;
}
