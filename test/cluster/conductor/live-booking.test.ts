import { expect, test } from "vitest";
import type { Booking } from "../../../src/cluster/conductor/booking.ts";
import { LiveBooking } from "../../../src/cluster/conductor/live-booking.ts";

const played = (isSingle = true) => {
  const gaps: number[] = [];
  const steps: number[] = [];
  let nowMs = 0;
  const booking = new LiveBooking({
    ...{ booking: {} as Booking, clock: { nowMs: () => nowMs }, arrivedMs: 0 },
    watch: { decided: () => {}, firstToken: () => {}, gap: (ms) => gaps.push(ms) },
    ...{ deadlines: { ttftMs: null, tbtMs: 50 }, isUnseen: false, isSingle },
    batch: () => ({ sequences: 1, contextTokens: 10 }),
    measured: ({ ms }) => steps.push(ms),
    onEnd: () => {},
  });
  const at = (ms: number, tokens: number, agoMs = 0, gapsCounted = false) => {
    nowMs = ms;
    booking.tokens(tokens, agoMs, gapsCounted);
  };
  return { booking, gaps, steps, at };
};

test("[CL266] tokens that are told late count as they came, and their gaps not again", () => {
  const { booking, gaps, steps, at } = played();
  expect(booking.gaps).toEqual({ deadlineMs: 50 });
  at(0, 1);
  // Ten tokens of 22 ms; the last came 30 ms before it was told.
  at(250, 10, 30, true);
  at(260, 1);
  // What was read late came 20 ms after that.
  at(300, 1, 20);
  expect(steps).toEqual([22]);
  expect(gaps).toEqual([40, 20]);
  // Never less than none.
  at(301, 1, 21.5);
  expect(gaps).toEqual([40, 20, 0]);
});

test("[CL266] gaps of several sequences in one answer say nothing", () => {
  const { booking, gaps, steps, at } = played(false);
  expect(booking.gaps).toBeNull();
  for (const ms of [0, 100, 200]) at(ms, 10);
  expect([gaps, steps]).toEqual([[], []]);
});
