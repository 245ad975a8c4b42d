/** A step's way from a part of a decoder to the next one, on a device whose work ends when told. */
import { describe, expect, test } from "vitest";
import { type DeviceTensor, type HostSlots, type MovesMark, ReferenceDevice } from "#devices";
import { type NextParts, PartExecutor } from "#engine/forward";
import type { StepCommand } from "#engine/loop";
import type { HiddenPlace } from "#engine/protocol";
import { partOf } from "#models";
import { DecoderDriver } from "../../contracts/decoder-driver.ts";
import { openRecordedModel } from "../../contracts/recorded-model.ts";

/** Copies to slots are done when the test says so, one after the other. */
class LateDevice extends ReferenceDevice {
  isLate = true;
  readonly #puts: { isDone: boolean; error: Error | null }[] = [];
  /** Slots of the copies so far. */
  readonly slots: number[] = [];

  override putTensor(slots: HostSlots, slot: number, tensor: DeviceTensor): MovesMark {
    const mark = super.putTensor(slots, slot, tensor);
    if (!this.isLate) return mark;
    const state = { isDone: false, error: null as Error | null };
    this.#puts.push(state);
    this.slots.push(slot);
    return {
      isDone: () => {
        if (state.error !== null) throw state.error;
        return state.isDone;
      },
    };
  }

  /** Ends copy `index`. */
  end(index: number, error: Error | null = null): void {
    const put = this.#puts[index];
    if (put !== undefined) Object.assign(put, { isDone: error === null, error });
  }
}

const turn = () => new Promise((resolve) => setTimeout(resolve, 5));

function opened(slots = 4) {
  const device = new LateDevice();
  const { model, sources } = openRecordedModel("llama");
  if (model.kind !== "decoder") throw new Error("A decoder is wanted");
  const range = { first: 0, end: 1 };
  const { decoder, cache } = new DecoderDriver({ device, model, sources, range });
  const bytesPerSlot = 4 * 64 * partOf(model, range).spec.hiddenSize;
  const memory = Array.from({ length: slots }, () => new Uint8Array(bytesPerSlot));
  const sent: { command: StepCommand; hidden: HiddenPlace | null }[] = [];
  const news: string[] = [];
  const ends: (() => void)[] = [];
  const next: NextParts = {
    start(command, hidden) {
      const step = sent.push({ command, hidden }) - 1;
      let end = () => {};
      const result = new Promise<void>((resolve) => {
        end = resolve;
      });
      ends.push(end);
      return {
        handed: (ok) => news.push(`${step} ${ok}`),
        edit: async () => {},
        result: result.then(() => ({ sampled: null, candidates: [] })),
      };
    },
  };
  let moves = 0;
  const executor = new PartExecutor({
    ...{ device, decoder, kvCache: cache, next, out: device.openHostSlots(memory, "out") },
    memory: { carryOut: () => moves++ },
    clock: { nowMs: () => performance.now() },
    timer: {
      after: (ms, run) => {
        const timeout = setTimeout(run, ms);
        return () => clearTimeout(timeout);
      },
    },
  });
  const start = (first: number, more: Partial<StepCommand> = {}) =>
    executor.start({ ...chunkFrom(first), ...more }, () => {});
  return { device, executor, start, sent, news, ends, moved: () => moves };
}

/** Three tokens of one sequence, whose block tables are of the driver's first sequence. */
function chunkFrom(first: number): StepCommand {
  const positions = Int32Array.of(first, first + 1, first + 2);
  return {
    ...{ moves: [], jobs: [], peerJobs: [], tokenMoves: null, tokenSources: null },
    ...{ tokens: 3, sequences: 1, tokenIds: Int32Array.of(7, 8, 9), positions },
    ...{ treeMask: null, treeStarts: null, rowsApart: false },
    queryStarts: Int32Array.of(0, 3),
    contextLengths: Int32Array.of(first + 3),
    tables: [{ slots: positions, blockTables: Int32Array.from({ length: 32 }, (_, at) => at) }],
    ...{ queryLengthMax: 3, contextLengthMax: first + 3 },
    ...{ prompts: [], logitRows: new Int32Array(0), sampling: null, searches: [] },
  };
}

describe("hidden states on their way out", () => {
  test("[PP14] a step is sent at once, and its hidden states are told of when they are there", async () => {
    const { device, start, sent, news, ends } = opened();
    const step = await start(0);
    expect(sent.map(({ hidden }) => hidden?.follows)).toEqual([false]);
    await start(3);
    expect(sent.map(({ hidden }) => hidden?.follows)).toEqual([false, true]);
    await turn();
    expect(news).toEqual([]);
    device.end(0);
    await turn();
    expect(news).toEqual(["0 true"]);
    device.end(1);
    await turn();
    expect(news).toEqual(["0 true", "1 true"]);
    ends[0]?.();
    expect(await step.finish()).toEqual({ sampled: null, candidates: [] });
  });

  test("[PP14] where ops run at once, the next step is not computed before it is told of", async () => {
    const { device, start, sent, news } = opened();
    device.isLate = false;
    for (const [step, told] of [["0 true"], ["0 true", "1 true"]].entries()) {
      expect(await start(3 * step).then(() => [...news])).toEqual(told);
    }
    expect(sent).toHaveLength(2);
  });

  test("[PP15] no more than two steps are here before the first one is handed over", async () => {
    const { device, start, sent } = opened();
    await start(0);
    await start(3);
    let isThird = false;
    const third = start(6).then(() => {
      isThird = true;
    });
    await turn();
    expect([isThird, sent.length]).toEqual([false, 2]);
    device.end(0);
    await third;
    expect(sent).toHaveLength(3);
  });

  test("[PP15] a slot is not used again before its step has ended everywhere", async () => {
    const { device, start, sent, ends } = opened(2);
    for (const step of [0, 1]) {
      await start(3 * step);
      device.end(step);
    }
    await turn();
    let isThird = false;
    const third = start(6).then(() => {
      isThird = true;
    });
    await turn();
    expect([isThird, device.slots]).toEqual([false, [0, 1]]);
    ends[1]?.();
    await turn();
    expect(isThird).toBe(false);
    ends[0]?.();
    await third;
    expect(device.slots).toEqual([0, 1, 0]);
    expect(sent.map(({ hidden }) => hidden?.slot)).toEqual([0, 1, 0]);
  });

  test("[PP14] a step whose hidden states fail fails alone, and its moves are done everywhere", async () => {
    const { device, start, sent, news, ends, moved } = opened();
    const failing = await start(0);
    await start(3);
    device.end(0, new Error("the device says no"));
    device.end(1);
    await expect(failing.finish()).rejects.toThrow("the device says no");
    await turn();
    expect(news).toEqual(["0 false", "1 true"]);
    // One that cannot begin is sent without its tokens.
    await expect(start(6, { tokens: 10_000 })).rejects.toThrow("Cannot stage 10000 tokens");
    expect(sent.at(-1)).toMatchObject({ command: { tokens: 0 }, hidden: null });
    expect(moved()).toBe(3);
    for (const end of ends) end();
  });

  test("[PP17] where the time of its steps goes is added up", async () => {
    const { device, executor, start, ends } = opened();
    expect(executor.times).toEqual({ steps: 0, computeMs: 0, waitMs: 0, copyMs: 0 });
    const step = await start(0);
    await turn();
    device.end(0);
    ends[0]?.();
    await step.finish();
    const { steps, computeMs, waitMs, copyMs } = executor.times;
    expect([steps, waitMs]).toEqual([1, 0]);
    expect(computeMs).toBeGreaterThan(0);
    expect(copyMs).toBeGreaterThan(2);
  });
});
