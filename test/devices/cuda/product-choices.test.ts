import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { ProductChoices } from "../../../src/devices/cuda/products/product-choices.ts";

const folder = mkdtempSync(join(tmpdir(), "perigee-choices-"));
afterAll(() => rmSync(folder, { recursive: true }));

const target = { gpu: "a GPU", cublasVersion: 13_010, driverVersion: 13_000 };
const algorithm = { code: Uint8Array.from({ length: 64 }, (_, i) => i).buffer, workspaceBytes: 7 };

/** The one file in the folder. */
function file(): string {
  const [name = ""] = readdirSync(folder);
  return join(folder, name);
}

test("keeps a choice for the next process, for the same GPU and libraries only", () => {
  new ProductChoices(folder, target).keep("a product", algorithm);
  expect(new ProductChoices(folder, target).find("a product")).toEqual(algorithm);
  expect(new ProductChoices(folder, target).find("another")).toBeNull();
  const other = { ...target, driverVersion: 13_010 };
  expect(new ProductChoices(folder, other).find("a product")).toBeNull();
});

test("without a folder keeps a choice for this process", () => {
  const choices = new ProductChoices(null, target);
  choices.keep("a product", algorithm);
  expect(choices.find("a product")).toEqual(algorithm);
  expect(new ProductChoices(null, target).find("a product")).toBeNull();
});

test.for([
  ["cut short", (text: string) => text.slice(0, -9)],
  ["a list", () => "[1, 2]"],
  ["null", () => "null"],
  ["a shorter code", (text: string) => text.replace("00010203", "")],
  ["a code that is no text", () => '{"a product": {"code": 5, "workspaceBytes": 0}}'],
  ["a workspace that is no number", (text: string) => text.replace(":7", ':"7"')],
  ["a megabyte and more", (text: string) => text + " ".repeat(2 << 20)],
] as const)("ignores a file that is %s", ([, change]) => {
  new ProductChoices(folder, target).keep("a product", algorithm);
  writeFileSync(file(), change(readFileSync(file(), "utf8")));
  expect(new ProductChoices(folder, target).find("a product")).toBeNull();
});
