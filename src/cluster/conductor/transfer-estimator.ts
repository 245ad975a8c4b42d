/**
 * How long keys and values take from one instance to another: by their bytes, the speed of both
 * ends, and what both ends move already. A busy sender is what makes copies of hot blocks pay.
 */
import { DecayedFit } from "#cluster/routing";
import { type ErrorReport, PredictionError } from "./prediction-error.ts";

/** One end of transfers: its speed, and how many it takes part in now. */
export interface TransferEnd {
  readonly bytesPerMs: number;
  readonly flows: number;
}

/** Of one transfer: its bytes, and both ends without it. */
export interface TransferPlan {
  readonly bytes: number;
  readonly sender: TransferEnd;
  readonly receiver: TransferEnd;
}

/** ms before the first byte, and of what plain division gives: about 1. */
const PRIOR = [1, 1] as const;
const SAMPLES = 200;

export class TransferEstimator {
  readonly #fit = new DecayedFit(PRIOR, SAMPLES);
  readonly #error = new PredictionError();

  /** ms, none for nothing. Ends whose speed is unknown (0) hold nothing up. */
  ms(plan: TransferPlan): number {
    if (!(plan.bytes > 0)) return 0;
    const [startMs = 0, factor = 1] = this.#fit.coefficients;
    return startMs + factor * shareMs(plan);
  }

  /** A transfer came through that was predicted of the same plan. */
  measured(plan: TransferPlan, ms: number): void {
    const nominal = shareMs(plan);
    if (!(ms > 0) || !Number.isFinite(ms) || !(nominal > 0)) return;
    this.#error.add(this.ms(plan), ms);
    this.#fit.add([1, nominal], ms);
  }

  error(): ErrorReport {
    return this.#error.report();
  }
}

/** With an equal share of the slower end for each of its transfers. */
function shareMs({ bytes, sender, receiver }: TransferPlan): number {
  return bytes * Math.max(perByte(sender), perByte(receiver));
}

function perByte({ bytesPerMs, flows }: TransferEnd): number {
  return bytesPerMs > 0 ? (flows + 1) / bytesPerMs : 0;
}
