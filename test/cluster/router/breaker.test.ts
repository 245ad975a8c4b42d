import { describe, expect, test } from "vitest";
import { CircuitBreaker } from "../../../src/cluster/router/breaker.ts";

function breaker() {
  const time = { ms: 0 };
  const clock = { nowMs: () => time.ms };
  return { time, breaker: new CircuitBreaker({ failuresMax: 3, openMs: 100, clock }) };
}

describe("a worker's breaker", () => {
  test("[CL83] opens at the third failure in a row, and not at others", () => {
    const { breaker: one } = breaker();
    one.failed();
    one.failed();
    one.succeeded();
    expect([one.failed(), one.failed(), one.state]).toEqual([false, false, "closed"]);
    expect([one.failed(), one.state, one.admits]).toEqual([true, "open", false]);
  });

  test("[CL83] lets one request try, which closes it or opens it again", () => {
    const { breaker: one, time } = breaker();
    for (let turn = 0; turn < 3; turn++) one.failed();
    time.ms = 100;
    expect([one.state, one.admits]).toEqual(["half-open", true]);
    one.begin();
    expect(one.admits).toBe(false);
    expect([one.failed(), one.state]).toEqual([true, "open"]);
    time.ms = 200;
    one.begin();
    one.succeeded();
    expect([one.state, one.admits]).toEqual(["closed", true]);
  });

  test("[CL83] answers of a trying request let others come, its failure opens it again", () => {
    const { breaker: one, time } = breaker();
    for (let turn = 0; turn < 3; turn++) one.failed();
    one.answering(); // of a request that was under way: it says nothing
    expect(one.state).toBe("open");
    time.ms = 100;
    one.begin();
    one.answering();
    expect([one.state, one.admits]).toEqual(["closed", true]);
    expect([one.failed(), one.state]).toEqual([true, "open"]);
  });

  test("[CL83] a trying request that its client left lets the next one try", () => {
    const { breaker: one, time } = breaker();
    for (let turn = 0; turn < 3; turn++) one.failed();
    time.ms = 150;
    one.begin();
    one.undecided();
    expect([one.state, one.admits]).toEqual(["half-open", true]);
  });

  test("[CL83] failures of requests that were under way when it opened do not prolong it", () => {
    const { breaker: one, time } = breaker();
    for (let turn = 0; turn < 3; turn++) one.failed();
    time.ms = 90;
    expect(one.failed()).toBe(false);
    time.ms = 100;
    expect(one.state).toBe("half-open");
  });
});
