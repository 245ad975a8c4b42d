/**
 * The code blocks of README.md, CONTRIBUTING.md and docs: each is in a language that a test knows,
 * and well-formed; commands are known, with flags that their own parser takes. The terminals run in
 * reader.test.ts, TypeScript in examples.test.ts.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { problemsOf } from "./block-problems.ts";
import { type Block, blocksOf, blocksOfFile, documentPaths } from "./document-blocks.ts";
import { printsAsShown, shownCommands, simpleCommands } from "./shell-lines.ts";

const paths = documentPaths();
const blocks = paths.flatMap(blocksOfFile);

/** `docs/fleet.md:8 (shell, not run: needs a GPU)`. */
function titleOf({ path, line, kind, notRun, needs }: Block): string {
  const marks = [kind ?? "?", ...needs.map((program) => `needs ${program}`)];
  if (notRun !== null) marks.push(`not run: ${notRun}`);
  return `${path}:${line} (${marks.join(", ")})`;
}

describe("blocks are well-formed", () => {
  test("there are some in many documents", () => {
    expect(new Set(blocks.map(({ path }) => path)).size).toBeGreaterThan(20);
    expect(blocks.filter(({ kind }) => kind === "shell").length).toBeGreaterThan(40);
  });

  test.each(blocks.map((block): [string, Block] => [titleOf(block), block]))(
    "%s",
    async (_, block) => {
      expect(await problemsOf(block)).toEqual([]);
    },
  );
});

describe("planted blocks are found", () => {
  const fenced = (language: string, code: string) => `\`\`\`${language}\n${code}\n\`\`\`\n`;

  test.each<[string, string, RegExp]>([
    ["an unknown language", fenced("rust", "fn main() {}"), /language that no test knows/],
    ["an indent for a fence", "text\n\n    npm run nothing\n", /only an indent/],
    ["commands that call themselves text", fenced("text", "npx perigee serve"), /holds commands/],
    ["no JSON", fenced("json", '{"a": 1,}'), /SyntaxError/],
    ["no YAML", fenced("yaml", "a: [1"), /flow sequence/i],
    ["no Python", fenced("python", "def f(:\n  pass"), /no Python at/],
    ["Python without a mark", fenced("python", "print(1)"), /say why/],
    ["an open quote", fenced("sh", "curl 'http://127.0.0.1:8000/v1/models"), /unexpected EOF/],
    ["an unknown flag", fenced("", "npx perigee serve --no-such-flag 1"), /--no-such-flag/],
    ["an unknown command", fenced("", "perigee sreve"), /unknown command/],
    ["a value out of range", fenced("", "perigee serve --port 99999"), /at most 65535/],
    ["a flag of another command", fenced("", "$ perigee route --kv-pool-bytes 1"), /kv-pool-bytes/],
    ["an unknown route", fenced("", "curl -s http://127.0.0.1:8000/v1/chatter"), /no server has/],
    ["an unknown script", fenced("", "npm run nothing"), /no script nothing/],
    ["a script that is gone", fenced("", "node bench/nothing.mjs"), /there is no bench/],
    ["an unknown flag of a script", fenced("", "node bench/eviction.mjs --nothing"), /not know/],
    ["a test that is gone", fenced("", "npx vitest run test/nothing"), /there is no test/],
    ["a terminal without a command", fenced("", "# only a comment"), /holds no command/],
  ])("%s", async (_, text, problem) => {
    const [block] = blocksOf("planted.md", `# Planted\n\n${text}`);
    expect(block).toBeDefined();
    if (block !== undefined) expect((await problemsOf(block)).join("\n")).toMatch(problem);
  });

  test("a mark belongs to the block behind it alone", () => {
    const text = `<!-- not run: needs a GPU -->\n\n${fenced("sh", "true")}\n${fenced("sh", "true")}`;
    expect(blocksOf("planted.md", text).map(({ notRun }) => notRun)).toEqual(["needs a GPU", null]);
    const other = `<!-- needs: redis-server, openssl -->\n${fenced("sh", "true")}`;
    expect(blocksOf("planted.md", other)[0]?.needs).toEqual(["redis-server", "openssl"]);
    const apart = `<!-- not run: needs a GPU -->\n\nA paragraph.\n\n${fenced("sh", "true")}`;
    expect(blocksOf("planted.md", apart)[0]?.notRun).toBeNull();
  });

  test("a mark without a reason is none", () => {
    const text = `<!-- not run: -->\n${fenced("sh", "true")}`;
    expect(blocksOf("planted.md", text)[0]?.notRun).toBeNull();
  });
});

describe("terminals are read", () => {
  test("sessions have outputs, lists of commands have comments", () => {
    expect(shownCommands("$ a 'b\nc' \\\n  d\nout\n$ e\n")).toEqual([
      { command: "a 'b\nc' \\\n  d", shown: "out", line: 1 },
      { command: "e", shown: null, line: 5 },
    ]);
    expect(shownCommands('# why\na    # how\nb\n# {"c":1}\n')).toEqual([
      { command: "a    # how", shown: null, line: 2 },
      { command: "b", shown: '{"c":1}', line: 3 },
    ]);
  });

  test("words are those of a shell", () => {
    const line = `A=1 npx perigee serve -p "a b" --x='{"c":"'$D'"}' \\\n  e # f\n`;
    expect(simpleCommands(line)).toEqual([
      ["npx", "perigee", "serve", "-p", "a b", '--x={"c":"$D"}', "e"],
    ]);
    expect(simpleCommands("a 2>&1 | b > c && d & e; X=$(f 'g)' (h)) i")).toEqual([
      ["a"],
      ["b"],
      ["d"],
      ["e"],
      ["i"],
    ]);
  });

  test("what is shown is compared with what is printed", () => {
    const printed =
      '{"id":"chatcmpl-7f","object":"list","data":[\n1.5, -2e-3]}\nperigee: on 2 threads';
    expect(printsAsShown('{"id":"…","object":"list",\n"data":[9,1]}', printed)).toBe(true);
    expect(printsAsShown('{"id":"…","object":"lost"', printed)).toBe(false);
    expect(printsAsShown('{"object":"list"}', printed)).toBe(false);
    expect(printsAsShown('{"id":"…","data":[1.5,', printed)).toBe(true);
    expect(printsAsShown('{"object":"list","id":"…"', printed)).toBe(false);
    expect(printsAsShown("perigee: on 64 threads", printed)).toBe(true);
    expect(printsAsShown("perigee: off 64 threads", printed)).toBe(false);
  });
});

test("docs/README.md leads to every page", () => {
  const index = readFileSync("docs/README.md", "utf8");
  const named = [...index.matchAll(/\]\(([^)]+\.md)\)/g)].map(([, link = ""]) =>
    join("docs", link),
  );
  const wanted = paths.filter((path) => /^docs\/(?!README)/.test(path));
  expect(wanted.filter((path) => !named.includes(path))).toEqual([]);
});
