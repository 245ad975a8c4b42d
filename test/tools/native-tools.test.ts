import { expect, test } from "vitest";
import { librariesOf, ownLibraries } from "../../tools/native/instruction-sets.mjs";
import { isNewer } from "../../tools/native/old-glibc.mjs";

const AVX512 = ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16"];
const AMX = ["amx_tile", "amx_bf16", "amx_int8"];
const own = (...features: string[]) => Object.keys(ownLibraries("linux-x64", new Set(features)));

test("an installation compiles the set that this processor would choose, and what it falls back to", () => {
  expect(own("avx2", "fma")).toEqual(["avx2", "transfer", "relay"]);
  expect(own("avx2", "avx_vnni")).toEqual(["avxvnni", "transfer", "relay"]);
  expect(own("avx2", ...AVX512)).toEqual(["avx512", "transfer", "relay"]);
  expect(own("avx2", ...AVX512, ...AMX)).toEqual(["avx512", "amx", "transfer", "relay"]);
  expect(own()).toEqual(Object.keys(librariesOf("linux-x64")));
});

test.for<[string, string, boolean]>([
  ["2.34", "2.28", true],
  ["2.4", "2.28", false],
  ["2.28", "2.28", false],
  ["2.2.5", "2.3", false],
  ["2.3.4", "2.3", true],
])("glibc %s is newer than %s: %s", ([version, than, newer]) => {
  expect(isNewer(version, than)).toBe(newer);
});
