import { expect, test } from "vitest";
import { RULES } from "../../tools/tidy/rules.mjs";

interface Violation {
  readonly rule: string;
  readonly path: string;
  readonly message: string;
}
type Rule = (files: ReadonlyMap<string, string>) => Violation[];
const rules = new Map((RULES as Rule[]).map((rule) => [rule.name, rule]));

/** One planted violation per rule: the file, its text, and what else must be in the tree. */
const PLANTED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  layers: { "src/kvcache/levels/block-pool.ts": 'import { Device } from "#devices";\n' },
  rooms: {
    "src/kvcache/contents/a.ts": 'import { KvEventLog } from "#kvcache/events";\n',
    "src/kvcache/b.ts": 'import { BlockPool } from "./levels/block-pool.ts";\n',
    "src/kvcache/attic/c.ts": "",
  },
  circles: {
    "src/base/a.ts": 'import { b } from "./b.ts";\n',
    "src/base/b.ts": 'import type { C } from "./c.ts";\n',
    "src/base/c.ts": 'import { a } from "./a.ts";\n',
  },
  names: { "src/base/utils.ts": "export const a = 1;\n" },
  doors: { "src/base/index.ts": "/** base */\nexport const a = 1;\n" },
  sizes: { "src/base/long.ts": "\n".repeat(401) },
  outside: { "src/engine/loop.ts": "const now = Date.now();\n" },
  settings: { "src/engine/loop.ts": 'import { z } from "zod";\n' },
  escapes: { "src/engine/loop.ts": `const a: { b: ${"any"} } = c;\n` },
  mirror: { "src/engine/loop.ts": "", "test/motor/loop.test.ts": "" },
  specs: { "src/kvcache/SPEC.md": "- **KV1** a rule\n", "test/kvcache/a.test.ts": '"[KV2] b"' },
  documents: { "README.md": "see [map](docs/no-such-page.md)\n" },
  layerTable: { "ARCHITECTURE.md": "| base | tensor |\n" },
  dependencies: { "package.json": '{"dependencies":{"left-pad":"1.0.0"}}' },
  machine: { "docs/notes.md": "see /home/somebody/notes\n" },
  readme: { "README.md": "words\n".repeat(20) },
  deviceKinds: { "src/engine/loop.ts": 'if (device.kind === "cuda") wait();\n' },
  phrases: { "src/engine/loop.ts": "/** Somebody reads it. */\nexport const a = 1;\n" },
  unfinished: { "src/engine/loop.ts": "// TODO: the rest\n" },
};

test("every rule of tidy has a planted violation here", () => {
  expect([...rules.keys()].sort()).toEqual(Object.keys(PLANTED).sort());
});

test.each(Object.keys(PLANTED))("tidy's rule %s catches a planted violation", (name) => {
  const files = new Map(Object.entries(PLANTED[name] ?? {}));
  const found = rules.get(name)?.(files) ?? [];
  expect(found.length).toBeGreaterThan(0);
  expect(found.every((violation) => violation.rule === name)).toBe(true);
});

test("mirror and specs look both ways", () => {
  const both = (name: string) => rules.get(name)?.(new Map(Object.entries(PLANTED[name] ?? {})));
  expect(both("mirror")).toHaveLength(2);
  expect(both("specs")).toHaveLength(2);
});

test("the step loop and the caller's side import neither devices nor models", () => {
  for (const room of ["loop", "caller"]) {
    for (const target of ["#devices", "#models"]) {
      const files = new Map([[`src/engine/${room}/a.ts`, `import { A } from "${target}";\n`]]);
      expect(rules.get("rooms")?.(files)).toHaveLength(1);
    }
  }
  const files = new Map([["src/engine/caller/a.ts", 'import { E } from "#engine/loop";\n']]);
  expect(rules.get("rooms")?.(files)).toHaveLength(1);
});

test("a layer may be entered by its door from above", () => {
  const files = new Map([["src/scheduler/a.ts", 'import { BlockPool } from "#kvcache";\n']]);
  expect(rules.get("layers")?.(files)).toEqual([]);
});
