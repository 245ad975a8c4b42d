import { expect, test } from "vitest";
import { systemClock, systemTimer } from "#base";

test("a timer runs once after its time, and not when it was cancelled", async () => {
  const start = systemClock.nowMs();
  const cancelled = systemTimer.after(1, () => expect.unreachable());
  cancelled();
  await new Promise<void>((resolve) => systemTimer.after(20, resolve));
  expect(systemClock.nowMs() - start).toBeGreaterThan(15);
});

test("a time beyond what Node's timers hold does not end at once", async () => {
  let over = false;
  const cancel = systemTimer.after(2 ** 40, () => {
    over = true;
  });
  await new Promise<void>((resolve) => systemTimer.after(10, resolve));
  expect(over).toBe(false);
  cancel();
});
