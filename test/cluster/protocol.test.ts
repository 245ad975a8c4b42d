import { expectTypeOf, test } from "vitest";
import type { WorkerInfo } from "#cluster";

test("what a worker says of itself is plain data: it survives JSON", () => {
  type Plain<T> = T extends (...args: never[]) => unknown
    ? never
    : T extends object
      ? { [K in keyof T]: Plain<T[K]> }
      : T;
  expectTypeOf<Plain<WorkerInfo>>().toEqualTypeOf<WorkerInfo>();
});
