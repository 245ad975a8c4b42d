/**
 * The choice of a prefill instance. Source: R. Qin et al. 2024, "Mooncake: a KVCache-centric
 * disaggregated architecture for LLM serving", Algorithm 1. What it leaves open is decided in the
 * rules CO1 to CO8 of SPEC.md.
 */
import { drawIndex, type Rng } from "#cluster/routing";
import type { ConductorConfig } from "./conductor-config.ts";
import type { HeldPrefix, InstanceNumber, PrefillTerms } from "./decision.ts";
import type { Instance, InstanceTable } from "./instance-table.ts";
import { type PrefillCoefficients, prefillMs } from "./prefill-estimator.ts";
import type { TransferEstimator } from "./transfer-estimator.ts";

/** What a choice is made from. */
export interface PrefillSearch {
  readonly table: InstanceTable;
  readonly config: ConductorConfig;
  readonly promptTokens: number;
  /** Prefixes of instances of any role. */
  readonly held: readonly HeldPrefix[];
  readonly nowMs: number;
  readonly bytesPerToken: number;
  readonly transfers: TransferEstimator;
  readonly coefficientsOf: (kind: string) => PrefillCoefficients;
  readonly rng: Rng;
  readonly barred: ReadonlySet<InstanceNumber> | null;
}

/** The chosen instance, and where the rest of its prefix is fetched; null: nowhere. */
export interface PrefillChoice {
  readonly terms: PrefillTerms;
  readonly from: InstanceNumber | null;
}

/** The longest prefix, and who has it and sends it soonest. */
export interface BestPrefix {
  readonly tokens: number;
  readonly holder: Instance | null;
}

type MutableTerms = { -readonly [name in keyof PrefillTerms]: PrefillTerms[name] };

/** Chooses; kept, since its tables are used again. */
export class PrefillChooser {
  /** By number of an instance: its prefix. All 0 between choices. */
  #prefixes = new Float64Array(0);
  readonly #tied: number[] = [];
  #scratch: MutableTerms = noTerms();
  #best: MutableTerms = noTerms();

  /** `FindBestPrefixMatch`: among equals, the one whose sending end is least busy. */
  bestPrefix({ held, table, promptTokens, barred }: PrefillSearch): BestPrefix {
    let tokens = 0;
    let holder: Instance | null = null;
    for (const prefix of held) {
      const instance = table.find(prefix.instance);
      const length = usable(prefix.tokens, promptTokens);
      if (instance === null || length === 0 || length < tokens) continue;
      if (barred?.has(instance.number)) continue;
      if (length === tokens && holder !== null && !sendsSooner(instance, holder)) continue;
      tokens = length;
      holder = instance;
    }
    return { tokens, holder };
  }

  /** Null: no instance computes prompts. */
  choose(search: PrefillSearch, best: BestPrefix): PrefillChoice | null {
    const { config, rng } = search;
    const instances = usableOf(search);
    if (instances.length === 0) return null;
    this.#spread(search);
    const chosen =
      config.policy === "random"
        ? (instances[drawIndex(rng, instances.length)] ?? null)
        : this.#least(search, instances, best);
    return this.#chosen(search, chosen, best);
  }

  /** The choice is made already; null: that instance left. */
  weighOne(search: PrefillSearch, best: BestPrefix, at: InstanceNumber): PrefillChoice | null {
    this.#spread(search);
    return this.#chosen(search, search.table.find(at), best);
  }

  #chosen(search: PrefillSearch, chosen: Instance | null, best: BestPrefix): PrefillChoice | null {
    const terms = chosen === null ? null : { ...this.#weigh(search, chosen, best) };
    this.#clear(search);
    if (terms === null) return null;
    const from = terms.transferMs > 0 || isMoved(terms) ? (best.holder?.number ?? null) : null;
    return { terms, from };
  }

  /** The terms of all instances, for explanations. */
  weighAll(search: PrefillSearch, best: BestPrefix): readonly PrefillTerms[] {
    this.#spread(search);
    const rows = search.table.prefilling.map((instance) => ({
      ...this.#weigh(search, instance, best),
    }));
    this.#clear(search);
    return rows;
  }

  /** Step 4: the instance of least time; among equals the shorter line, then chance. */
  #least(search: PrefillSearch, instances: readonly Instance[], best: BestPrefix): Instance | null {
    const byQueue = search.config.policy === "load";
    const tied = this.#tied;
    tied.length = 0;
    for (let at = 0; at < instances.length; at++) {
      const instance = instances[at];
      if (instance === undefined) continue;
      const terms = this.#weigh(search, instance, best);
      const order = tied.length === 0 ? -1 : compare(terms, this.#best, byQueue);
      if (order > 0) continue;
      if (order < 0) {
        tied.length = 0;
        this.#scratch = this.#best;
        this.#best = terms;
      }
      tied.push(at);
    }
    return instances[tied[drawIndex(search.rng, tied.length)] ?? 0] ?? null;
  }

  /** Steps 4a to 4c for one instance; the record is used again by the next call. */
  #weigh(search: PrefillSearch, instance: Instance, best: BestPrefix): MutableTerms {
    const { promptTokens, config } = search;
    const own = this.#prefixes[instance.number] ?? 0;
    const coefficients = search.coefficientsOf(instance.kind);
    const terms = this.#scratch;
    terms.instance = instance.number;
    terms.ownPrefixTokens = own;
    terms.queueMs = instance.prefill.queueMs(search.nowMs);
    terms.transferMs = 0;
    terms.usedPrefixTokens = own;
    terms.prefillMs = prefillMs(coefficients, promptTokens, own);
    // The ratio of step 4b, without a division by 0: nothing at all is not more than nothing.
    const isMuchLonger = best.tokens > own * config.balancingThreshold;
    if (config.policy === "global" && isMuchLonger && best.holder !== null) {
      const transferMs = this.#transferMs(search, instance, best, own);
      const thenMs = prefillMs(coefficients, promptTokens, best.tokens);
      if (!config.estimatesTransfers || transferMs + thenMs < terms.prefillMs) {
        terms.transferMs = transferMs;
        terms.usedPrefixTokens = best.tokens;
        terms.prefillMs = thenMs;
      }
    }
    const { queueMs, transferMs } = terms;
    const waitMs =
      config.transferTime === "added" ? queueMs + transferMs : Math.max(queueMs, transferMs);
    terms.ttftMs = waitMs + terms.prefillMs;
    return terms;
  }

  #transferMs(search: PrefillSearch, to: Instance, best: BestPrefix, own: number): number {
    const { holder: from, tokens } = best;
    if (from === null) return 0;
    return search.transfers.ms({
      bytes: (tokens - own) * search.bytesPerToken,
      sender: { bytesPerMs: from.networkBytesPerMs, flows: from.sends },
      receiver: { bytesPerMs: to.networkBytesPerMs, flows: to.receives },
    });
  }

  #spread({ held, table, promptTokens }: PrefillSearch): void {
    if (this.#prefixes.length < table.size) this.#prefixes = new Float64Array(2 * table.size);
    for (const { instance, tokens } of held) {
      if (table.find(instance) !== null) this.#prefixes[instance] = usable(tokens, promptTokens);
    }
  }

  #clear({ held }: PrefillSearch): void {
    for (const { instance } of held) {
      if (instance < this.#prefixes.length) this.#prefixes[instance] = 0;
    }
  }
}

/** A prefix is moved where more of it is used than the instance has. */
export function isMoved({ usedPrefixTokens, ownPrefixTokens }: PrefillTerms): boolean {
  return usedPrefixTokens > ownPrefixTokens;
}

function usableOf({ table, barred }: PrefillSearch): readonly Instance[] {
  if (barred === null || barred.size === 0) return table.prefilling;
  return table.prefilling.filter(({ number }) => !barred.has(number));
}

function compare(a: PrefillTerms, b: PrefillTerms, byQueue: boolean): number {
  return byQueue ? a.queueMs - b.queueMs : a.ttftMs - b.ttftMs || a.queueMs - b.queueMs;
}

function sendsSooner(a: Instance, b: Instance): boolean {
  const busy = ({ sends, networkBytesPerMs }: Instance) =>
    networkBytesPerMs > 0 ? (sends + 1) / networkBytesPerMs : 0;
  return busy(a) < busy(b);
}

/** What an index says may be longer than a prompt, or nonsense. */
function usable(tokens: number, promptTokens: number): number {
  return tokens > 0 ? Math.min(tokens, promptTokens) : 0;
}

function noTerms(): MutableTerms {
  return {
    ...{ instance: 0, queueMs: 0, transferMs: 0, prefillMs: 0, ttftMs: 0 },
    ...{ ownPrefixTokens: 0, usedPrefixTokens: 0 },
  };
}
