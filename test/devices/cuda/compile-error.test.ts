import { expect, test } from "vitest";
import { compileError } from "../../../src/devices/cuda/kernels/compile-error.ts";

const source = {
  path: "native/cuda/norm.cu",
  text: '#include "rows.h"\nkernel() {\n  y = f(1);\n}',
  headers: { "rows.h": "// rows\nint f(int) { return z; }" },
};

test("the file's line and the compiler's words are in the message", () => {
  const log = 'native/cuda/norm.cu(3): error: identifier "y" is undefined\n    y = f(1);\n    ^\n';
  const error = compileError(source, log);
  expect(error.code).toBe("DEVICE_UNAVAILABLE");
  expect(error.message).toBe(
    "Cannot compile native/cuda/norm.cu: a source without errors wanted, " +
      'native/cuda/norm.cu:3: identifier "y" is undefined, in `y = f(1);`',
  );
  expect(error.cause).toEqual(new Error(log.trim()));
});

test("an error in a header is quoted from there, a warning before it is passed over", () => {
  const log = 'rows.h(1): warning #1-D: odd\nrows.h(2): error #20: identifier "z" is undefined\n';
  expect(compileError(source, log).message).toMatch(
    /rows\.h:2: identifier "z" is undefined, in `int f\(int\) \{ return z; \}`$/,
  );
});

test("a log without a place is given as it begins", () => {
  expect(compileError(source, "out of patience\nmore").message).toMatch(/wanted, out of patience$/);
});
