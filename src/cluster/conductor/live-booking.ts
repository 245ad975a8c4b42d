import type { Clock } from "#base";
import type { GapWatch, ReservationEnd, ReservationWatcher } from "#cluster/routing";
import type { Booking } from "./booking.ts";
import type { DecodePoint } from "./decode-estimator.ts";
import type { ServiceWatch } from "./service-watch.ts";

export interface LiveBookingParts {
  readonly booking: Booking;
  readonly clock: Clock;
  readonly watch: ServiceWatch;
  readonly arrivedMs: number;
  readonly deadlines: { readonly ttftMs: number | null; readonly tbtMs: number | null };
  /** Its answer comes in one piece: neither tokens nor gaps are seen. */
  readonly isUnseen: boolean;
  /** It has one sequence. */
  readonly isSingle: boolean;
  /** What decodes where it decodes. */
  readonly batch: () => { readonly sequences: number; readonly contextTokens: number };
  readonly measured: (point: DecodePoint) => void;
  readonly onEnd: () => void;
}

/** As many tokens make one sample of a step: single ones come in the packets of the network. */
const STRETCH_TOKENS = 8;

/** Keeps a request's booking at the conductor by what its reservation sees of it. */
export class LiveBooking implements ReservationWatcher {
  /** Gaps between tokens of several sequences say nothing. */
  readonly gaps: GapWatch | null;
  readonly #parts: LiveBookingParts;
  #lastMs: number | null = null;
  #markMs = 0;
  #markTokens = 0;
  #tokens = 0;

  constructor(parts: LiveBookingParts) {
    this.#parts = parts;
    const { isUnseen, isSingle, deadlines } = parts;
    this.gaps = isUnseen || !isSingle ? null : { deadlineMs: deadlines.tbtMs };
  }

  get tbtDeadlineMs(): number | null {
    return this.#parts.deadlines.tbtMs;
  }

  firstToken(): void {
    const { booking, clock, watch, arrivedMs, deadlines, isUnseen } = this.#parts;
    // How long a prefix took to come is not seen; by now it is there.
    booking.transferred(false);
    booking.prefilled(!isUnseen);
    booking.decoding();
    if (!isUnseen) watch.firstToken(clock.nowMs() - arrivedMs, deadlines.ttftMs);
  }

  tokens(count: number, agoMs: number, gapsCounted: boolean): void {
    const { clock, watch, deadlines, batch, measured } = this.#parts;
    if (this.gaps === null) return;
    // How long ago is told by other looks at the clock: no token comes before the last one.
    const nowMs = Math.max(clock.nowMs() - agoMs, this.#lastMs ?? Number.NEGATIVE_INFINITY);
    if (this.#lastMs === null) this.#markMs = nowMs;
    else {
      if (!gapsCounted) watch.gap(nowMs - this.#lastMs, deadlines.tbtMs);
      this.#tokens += count;
    }
    this.#lastMs = nowMs;
    const tokens = this.#tokens - this.#markTokens;
    if (tokens < STRETCH_TOKENS) return;
    measured({ ...batch(), ms: (nowMs - this.#markMs) / tokens });
    this.#markMs = nowMs;
    this.#markTokens = this.#tokens;
  }

  /** Its first token is not seen: it counts as there when it was predicted to be. */
  passUnseen(nowMs: number): boolean {
    const { booking, isUnseen } = this.#parts;
    if (!isUnseen || booking.joinMs > nowMs) return false;
    booking.transferred(false);
    booking.prefilled(false);
    booking.decoding();
    return true;
  }

  end(how: ReservationEnd, outputTokens: number): void {
    const { booking, onEnd, isUnseen } = this.#parts;
    booking.ended(how === "ended" && !isUnseen ? outputTokens : null);
    onEnd();
  }
}
