import { expect, test } from "vitest";
import { AssertionError } from "#base";
import { Admission } from "../../src/server/admission.ts";

test("only as many as the limit are in, and leaving makes room", () => {
  const admission = new Admission(2);
  const first = admission.enter();
  admission.enter();
  expect(() => admission.enter()).toThrow(expect.objectContaining({ code: "QUEUE_FULL" }));
  admission.leave(first);
  expect(admission.runningCount).toBe(1);
  expect(() => admission.enter()).not.toThrow();
});

test("draining refuses newcomers and ends with the last one that is in", async () => {
  const admission = new Admission(4);
  const running = [admission.enter(), admission.enter()];
  let drained = false;
  const done = admission.drain().then(() => {
    drained = true;
  });
  expect(() => admission.enter()).toThrow(expect.objectContaining({ code: "SHUTTING_DOWN" }));
  for (const controller of running) {
    await Promise.resolve();
    expect(drained).toBe(false);
    admission.leave(controller);
  }
  await done;
});

test("draining with no one in ends at once", async () => {
  await new Admission(1).drain();
});

test("aborting all tells each one why", () => {
  const admission = new Admission(4);
  const { signal } = admission.enter();
  admission.abortAll();
  expect(signal.reason).toMatchObject({
    code: "SHUTTING_DOWN",
    message: expect.stringMatching(/^The server is shutting down and cut this answer off/),
  });
});

test("leaving twice is a bug", () => {
  const admission = new Admission(1);
  const controller = admission.enter();
  admission.leave(controller);
  expect(() => admission.leave(controller)).toThrow(AssertionError);
});

test("draining does not wait for one that was told to end and does not", async () => {
  const admission = new Admission(4);
  const controller = admission.enter();
  const drained = admission.drain();
  admission.abortAll();
  expect(controller.signal.aborted).toBe(true);
  await drained;
  expect(admission.runningCount).toBe(1);
  admission.leave(controller);
});
