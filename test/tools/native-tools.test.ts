import { expect, test } from "vitest";
import {
  librariesOf,
  ownLibraries,
  usableLibraries,
} from "../../tools/native/instruction-sets.mjs";
import { isNewer } from "../../tools/native/old-glibc.mjs";

const AVX512 = ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16"];
const AMX = ["amx_tile", "amx_bf16", "amx_int8"];
const AVX2 = ["avx2", "fma", "f16c", "bmi2"];
const own = (...features: string[]) => Object.keys(ownLibraries("linux-x64", new Set(features)));
const usable = (...features: string[]) =>
  Object.keys(usableLibraries("linux-x64", new Set(features)));

test("an installation compiles the set that this processor would choose, and what it falls back to", () => {
  expect(own(...AVX2)).toEqual(["avx2", "transfer", "relay"]);
  expect(own(...AVX2, "avx_vnni")).toEqual(["avxvnni", "transfer", "relay"]);
  expect(own(...AVX2, ...AVX512)).toEqual(["avx512", "transfer", "relay"]);
  expect(own(...AVX2, ...AVX512, ...AMX)).toEqual(["avx512", "amx", "transfer", "relay"]);
  expect(own()).toEqual(Object.keys(librariesOf("linux-x64")));
});

test("tests have each set that this processor can run", () => {
  expect(usable(...AVX2)).toEqual(["avx2", "transfer", "relay"]);
  expect(usable(...AVX2, "avx_vnni")).toEqual(["avx2", "avxvnni", "transfer", "relay"]);
  expect(usable(...AVX2, ...AVX512)).toEqual(["avx2", "avx512", "transfer", "relay"]);
  expect(usable(...AVX2, ...AMX)).toEqual(["avx2", "transfer", "relay"]);
  expect(usable(...AVX2, ...AVX512, ...AMX)).toContain("amx");
  expect(usable()).toEqual(Object.keys(librariesOf("linux-x64")));
  expect(Object.keys(usableLibraries("linux-arm64", new Set(["asimd"])))).toContain("neon");
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
