import { expect, test } from "vitest";
import { nativeFunctions } from "../../tools/tidy/native-functions.mjs";
import { RULES } from "../../tools/tidy/rules.mjs";

interface Violation {
  readonly rule: string;
  readonly path: string;
  readonly message: string;
}
type Rule = (files: ReadonlyMap<string, string>) => Violation[];
const rules = new Map((RULES as Rule[]).map((rule) => [rule.name, rule]));

/** Written so that the rule passes over this file. */
const person = ["Some", "body"].join("");

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
  builds: { "bench/a.mjs": `import { a } from "${"../dist"}/base/moved.js";\n` },
  names: { "src/base/utils.ts": "export const a = 1;\n" },
  doors: { "src/base/index.ts": "/** base */\nexport const a = 1;\n" },
  sizes: { "src/base/long.ts": "\n".repeat(401) },
  nativeSizes: {
    "native/cuda/a.h": `template <typename T>\n__global__ void a(\n    T* b) {\n${"  b[0]++;\n".repeat(60)}}\n`,
  },
  outside: { "src/engine/loop.ts": "const now = Date.now();\n" },
  settings: { "src/engine/loop.ts": 'import { z } from "zod";\n' },
  escapes: { "src/engine/loop.ts": `const a: { b: ${"any"} } = c;\n` },
  mirror: { "src/engine/loop.ts": "", "test/motor/loop.test.ts": "" },
  specs: { "src/kvcache/SPEC.md": "- **KV1** a rule\n", "test/kvcache/a.test.ts": '"[KV2] b"' },
  documents: { "README.md": "see [map](docs/no-such-page.md)\n" },
  layerTable: { "ARCHITECTURE.md": "| base | tensor |\n" },
  dependencies: { "package.json": '{"dependencies":{"left-pad":"1.0.0"}}' },
  machine: { "docs/notes.md": "see /home/user/notes\n" },
  readme: { "README.md": "words\n".repeat(20) },
  deviceKinds: { "src/engine/loop.ts": 'if (device.kind === "cuda") wait();\n' },
  phrases: { "src/engine/loop.ts": `/** ${person} reads it. */\nexport const a = 1;\n` },
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

test("persons are found in names of tests and in comments, and not in texts that are data", () => {
  const phrases = (text: string) =>
    rules.get("phrases")?.(new Map([["test/engine/loop.test.ts", text]])) ?? [];
  expect(phrases(`test("${person} waits", () => {});`)).toHaveLength(1);
  expect(phrases(`test.each([1])("${person} waits", () => {});`)).toHaveLength(1);
  expect(phrases(`  ])("${person} waits", () => {});`)).toHaveLength(1);
  expect(phrases(`const a = 1; // ${person} waits`)).toHaveLength(1);
  expect(phrases(`expect(error).toContain("${person} waits");`)).toEqual([]);
});

test("persons are found in documents, and not in their code blocks", () => {
  const phrases = (path: string, text: string) => rules.get("phrases")?.(new Map([[path, text]]));
  expect(phrases("README.md", `# Title\n\n${person} waits.\n`)).toMatchObject([{ line: 3 }]);
  expect(phrases("docs/api/server.md", `${person} waits.\n`)).toHaveLength(1);
  const block = `Run:\n\n\`\`\`sh\necho ${person}\n\`\`\`\n\n`;
  expect(phrases("docs/replay.md", block)).toEqual([]);
  expect(phrases("docs/replay.md", `${block}${person} waits.\n\n${block}`)).toMatchObject([
    { line: 7 },
  ]);
  expect(phrases("models/pocket/README.md", `${person} waits.\n`)).toEqual([]);
});

test("functions of C++ and CUDA are found by name and size", () => {
  const source = `
    #define PLUS(a) { a++; }
    namespace perigee {
    extern "C" {
    // A comment with a brace {.
    template <typename T, int kRows = 2>
    __global__ void __launch_bounds__(256)
        kernel(T* out,
               int rows) {
      // A sentence.

      if (rows > 0) { out[0] = T{}; }
      auto each = [&](int row) { return row + 1; };
    }
    }
    constexpr int kSizes[] = {1, 2};
    inline constexpr Table kTable{kSizes, size(kSizes)};
    class Job final : public Base {
     public:
      explicit Job(int rows = {}) : rows_(rows), shape_{rows, 1} {}
      int rows() const noexcept { return rows_; }
      static Job of(const char* text = "{") {
        return Job{1};
      }
      Job& operator=(Job&& other) { return *this; }
     private:
      int shape_[2] = {0, 0};
    };
    auto rowsOf(const Job& job) -> std::vector<int> {
      return {};
    }
    }  // namespace perigee`;
  expect(
    nativeFunctions(source).map(({ name, lines, codeLines }) => [name, lines, codeLines]),
  ).toEqual([
    ["kernel", 9, 7],
    ["Job", 1, 1],
    ["rows", 1, 1],
    ["of", 3, 3],
    ["operator=", 1, 1],
    ["rowsOf", 3, 3],
  ]);
});
