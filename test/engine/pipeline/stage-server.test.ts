/** The side of a stage that takes steps: a stage before it writes messages by hand. */
import { duplexPair } from "node:stream";
import { expect, test } from "vitest";
import { EngineError } from "#base";
import { ReferenceDevice } from "#devices";
import type { StepCommand } from "#engine/loop";
import {
  FrameChannel,
  type FromStage,
  HiddenSlots,
  StageServer,
  type ToStage,
} from "#engine/pipeline";
import { IncomingHidden } from "../../../src/engine/thread/stage-hidden.ts";

const facts = { blocks: 1, parameters: 1, devices: ["none"] };
const times = [{ steps: 1, computeMs: 2, waitMs: 3, copyMs: 4 }];
const turn = () => new Promise((resolve) => setTimeout(resolve, 5));

/** A stage that writes down what it starts. */
async function opened() {
  const [one, other] = duplexPair();
  const before = new FrameChannel<FromStage, ToStage>(one);
  const heard: FromStage[] = [];
  before.listen({ onMessage: (message) => heard.push(message), onEnd: () => {} });
  const started: unknown[] = [];
  const refuse = () => Promise.reject(new EngineError("IO", "Not asked for"));
  const stage = {
    executor: {
      async start({ tokens }: StepCommand, _onPart: unknown, hidden: unknown) {
        started.push([tokens, hidden]);
        const result = { sampled: null, candidates: [] };
        return { movesMs: 0, edit: async () => {}, finish: async () => result };
      },
    },
    ...{ times: () => times, settled: async () => {}, offer: refuse, endOffer: () => {} },
    close: async () => {},
  };
  const server = new StageServer(new FrameChannel(other), {
    ...{ weights: async () => facts, steps: async () => facts },
    pool: async () => ({ facts, stage }),
    close: async () => {},
  });
  before.send({ type: "pool", blocks: 1, hostBlocks: 0 });
  await turn();
  heard.length = 0;
  return { before, heard, started, server };
}

function stepOf(step: number, slot: number | null): ToStage {
  const hidden = slot === null ? null : { slot, bytes: 8, follows: false };
  // The stage passes it on: no more of it is looked at here.
  const command = { tokens: slot === null ? 0 : 2, sampling: null } as unknown as StepCommand;
  return { type: "step", step, command, hidden };
}

test("[PP14] steps start in their order, each once its hidden states are there", async () => {
  const { before, heard, started } = await opened();
  for (const message of [stepOf(0, 0), stepOf(1, 1), stepOf(2, null)]) before.send(message);
  before.send({ type: "handed", step: 1, ok: true });
  await turn();
  expect(started).toEqual([]);
  before.send({ type: "handed", step: 0, ok: true });
  await turn();
  expect(started).toEqual([
    [2, { slot: 0, bytes: 8, follows: false }],
    [2, { slot: 1, bytes: 8, follows: false }],
    [0, null],
  ]);
  const result = { sampled: null, candidates: [] };
  expect(heard).toEqual([0, 1, 2].map((step) => ({ type: "result", step, result, times })));
});

test("[PP14] a step whose hidden states do not come only moves blocks", async () => {
  const { before, heard, started } = await opened();
  before.send(stepOf(0, 0));
  before.send({ type: "handed", step: 0, ok: false });
  // Of a step that was never sent.
  before.send({ type: "handed", step: 7, ok: true });
  await turn();
  expect(started).toEqual([[0, null]]);
  expect(heard).toHaveLength(1);
});

test("[PP12] hidden states of another size, or in no slot, are refused", () => {
  const device = new ReferenceDevice();
  const slots = HiddenSlots.create({ slots: 2, bytesPerSlot: 64 });
  const incoming = new IncomingHidden(device, slots);
  const rows = device.allocate("f32", [2, 4]);
  const take = (slot: number, bytes: number) =>
    incoming.at({ slot, bytes, follows: false }).take(rows);
  expect(() => take(0, 36)).toThrow("Cannot take 36 bytes of hidden states: 32 wanted");
  expect(() => take(0, -1)).toThrow("32 wanted");
  expect(() => take(2, 32)).toThrow("Cannot use slot 2 of 2");
  expect(() => take(0.5, 32)).toThrow("Cannot use slot 0.5 of 2");
  expect(take(1, 32).isDone()).toBe(true);
  slots.close();
});
