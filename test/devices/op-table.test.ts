import { expect, test } from "vitest";
import { type OpTable, opsClass } from "../../src/devices/op-table.ts";
import { ReferenceDevice } from "../../src/devices/reference/reference-device.ts";

type Call = readonly [op: string, input: unknown];
type Record = (calls: Call[], input: unknown) => void;

/** Ops that record their calls in their context. */
const record = (op: string): Record => {
  return (calls, input) => {
    calls.push([op, input]);
  };
};
const table: OpTable<Call[]> = {
  takeTokens: record("takeTokens"),
  acceptTrees: record("acceptTrees"),
  spreadRows: record("spreadRows"),
  embed: record("embed"),
  norm: record("norm"),
  linear: record("linear"),
  linearActivate: record("linearActivate"),
  activate: record("activate"),
  convert: record("convert"),
  add: record("add"),
  rotateHeads: record("rotateHeads"),
  ropeKvWrite: record("ropeKvWrite"),
  pagedAttention: record("pagedAttention"),
  moveTokens: record("moveTokens"),
  encoderAttention: record("encoderAttention"),
  mixtureOfExperts: record("mixtureOfExperts"),
  gatherRows: record("gatherRows"),
  joinRows: record("joinRows"),
  meanPool: record("meanPool"),
  softcap: record("softcap"),
  adjustLogits: record("adjustLogits"),
  sample: record("sample"),
  logprobs: record("logprobs"),
  raceCandidates: record("raceCandidates"),
  selectBeams: record("selectBeams"),
  traceBeams: record("traceBeams"),
};
const Ops = opsClass(table);
const x = new ReferenceDevice().allocate("f32", [1, 1]);

test("a method runs its op's function, in the context of its own device", () => {
  const [first, second]: [Call[], Call[]] = [[], []];
  const [device, other] = [new Ops(first), new Ops(second)];
  const [sum, cap] = [
    { count: 1, x, delta: x },
    { count: 1, x, cap: 30 },
  ];
  device.add(sum);
  device.softcap(cap);
  other.add(sum);
  expect(first).toEqual([
    ["add", sum],
    ["softcap", cap],
  ]);
  expect(second).toEqual([["add", sum]]);
});

test("a subclass has every op of the contract", () => {
  class Device extends Ops {
    readonly kind = "recording";
  }
  const device = new Device([]);
  for (const op of Object.keys(table)) expect(device).toHaveProperty(op, expect.any(Function));
});
