/** The engine's side of the link, where something goes wrong. */
import { expect, onTestFinished, test, vi } from "vitest";
import { EngineError } from "#base";
import { ReferenceDevice } from "#devices";
import { SamplingParams } from "#engine";
import { parseEngineOptions } from "../../src/engine/protocol/config.ts";
import type { EngineRequest, FromEngine } from "../../src/engine/protocol/protocol.ts";
import { EngineService } from "../../src/engine/thread/service.ts";
import { fixturePath } from "../contracts/recorded-model.ts";

const request: EngineRequest = {
  key: 1,
  requestId: "one",
  promptTokenIds: Int32Array.of(1, 2, 3, 4, 5),
  params: SamplingParams.parse({ temperature: 0, maxTokens: 50, ignoreEos: true }),
  seed: 0n,
  cacheSalt: null,
  retention: null,
  priority: 0,
  badWordTokenIds: [],
  thinking: null,
  promptLogits: false,
  ...{ draftShape: null, predictedTokenIds: null },
};

/** A service on the reference device, whose clock can be broken. */
class ServiceUnderTest {
  readonly posted: FromEngine[] = [];
  readonly service: EngineService;
  clockIsBroken = false;
  timersRunning = 0;
  /** Called with every message. */
  onMessage: (message: FromEngine) => void = () => {};

  constructor() {
    this.service = new EngineService({
      clock: {
        nowMs: () => {
          if (this.clockIsBroken) throw new Error("time stands still");
          return 0;
        },
      },
      timer: {
        after: () => {
          this.timersRunning++;
          return () => this.timersRunning--;
        },
      },
      post: (message) => {
        this.posted.push(message);
        this.onMessage(message);
      },
    });
  }

  load(): void {
    const options = parseEngineOptions({ device: "reference", speculative: { kind: "off" } });
    this.service.receive({ type: "load", path: fixturePath("llama"), options });
  }

  get types(): string[] {
    return this.posted.map(({ type }) => type);
  }
}

test("an engine that failed in the middle of a request can still be closed", async () => {
  const under = new ServiceUnderTest();
  let steps = 0;
  under.onMessage = ({ type }) => {
    if (type === "ready") under.service.receive({ type: "add", request });
    if (type === "step" && ++steps === 2) under.clockIsBroken = true;
    if (type !== "dead") return;
    // What is released is counted by the clock, too: only the step must have failed.
    under.clockIsBroken = false;
    under.service.receive({ type: "close" });
  };
  under.load();
  await under.service.closed;
  expect(under.types.slice(-2)).toEqual(["dead", "closed"]);
  expect(under.posted.at(-2)).toMatchObject({
    error: { message: expect.stringContaining("time") },
  });
  expect(under.timersRunning).toBe(0);
});

test("a device that broke ends the batch and the engine, and closing says no more", async () => {
  const broke = new EngineError("DEVICE_FAILED", "Cannot run a call: success wanted, it broke");
  const lateRead = { take: () => Promise.reject(broke) };
  const readLater = vi.spyOn(ReferenceDevice.prototype, "readLater").mockReturnValue(lateRead);
  const dispose = vi.spyOn(ReferenceDevice.prototype, "dispose").mockImplementation(() => {
    throw broke;
  });
  onTestFinished(() => {
    readLater.mockRestore();
    dispose.mockRestore();
  });
  const under = new ServiceUnderTest();
  under.onMessage = ({ type }) => {
    if (type === "ready") under.service.receive({ type: "add", request });
    if (type === "dead") under.service.receive({ type: "close" });
  };
  under.load();
  await under.service.closed;
  expect(under.types.slice(-3)).toEqual(["step", "dead", "closed"]);
  const [step, dead] = under.posted.slice(-3);
  expect(step).toMatchObject({ failures: [{ key: 1, error: { code: "DEVICE_FAILED" } }] });
  expect(dead).toMatchObject({
    error: { code: "ENGINE_DEAD", message: expect.stringContaining(broke.message) },
  });
});

test("closing in the middle of a request says nothing more of it", async () => {
  const under = new ServiceUnderTest();
  under.onMessage = ({ type }) => {
    if (type === "ready") under.service.receive({ type: "add", request });
    if (type === "step") under.service.receive({ type: "close" });
  };
  under.load();
  await under.service.closed;
  expect(under.types.filter((type) => type === "step")).toHaveLength(1);
  expect(under.types.at(-1)).toBe("closed");
});

test("closing while the model is loaded waits for that, and frees it", async () => {
  const under = new ServiceUnderTest();
  under.load();
  under.service.receive({ type: "close" });
  await under.service.closed;
  expect(under.types.at(-1)).toBe("closed");
  expect(under.types).not.toContain("step");
});

test("closing what was never loaded, or could not be, is no trouble", async () => {
  const never = new ServiceUnderTest();
  never.service.receive({ type: "close" });
  await never.service.closed;
  expect(never.types).toEqual(["closed"]);
  const failed = new ServiceUnderTest();
  const options = parseEngineOptions({ device: "reference", speculative: { kind: "off" } });
  failed.service.receive({ type: "load", path: "nowhere", options });
  failed.service.receive({ type: "close" });
  await failed.service.closed;
  expect(failed.types).toEqual(["dead", "closed"]);
});

test("a message of no known type ends the service loudly", () => {
  const { service } = new ServiceUnderTest();
  const fromElsewhere = [{ type: "close" }] as never;
  expect(() => service.receive(fromElsewhere)).toThrow("run npm run build");
});
