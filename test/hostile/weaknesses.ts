/**
 * Weaknesses planted into a copy of the build, to see that the suite finds them. The build itself
 * has no switch for them: a copy's files are changed as text.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { BodyCase, HostileCase, WireCase } from "./hostile-case.ts";
import type { Check } from "./hostile-run.ts";
import { objectText, repeated } from "./json-text.ts";

interface Change {
  /** Within `dist`. */
  readonly file: string;
  readonly find: string;
  readonly put: string;
}

export interface Weakness {
  readonly name: string;
  readonly changes: readonly Change[];
  /** What such a weakness shows itself by; the generated cases have them too. */
  readonly cases: readonly HostileCase[];
  readonly foundBy: readonly Check[];
  /** Quick enough for every run. */
  readonly quick: boolean;
}

function body(name: string, fields: Readonly<Record<string, string>>): BodyCase {
  const base = { prompt: '"A cache is"', max_tokens: "2", temperature: "0" };
  return {
    ...{ kind: "body", name, path: "/v1/completions", fields: Object.keys(fields) },
    ...{ body: objectText({ ...base, ...fields }), ways: ["whole"] },
  };
}

function client(text: string, end: WireCase["end"]): WireCase {
  const head = "POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n";
  const bytes = Buffer.from(`${head}content-length: ${text.length}\r\n\r\n${text}`);
  return { kind: "wire", name: `a client that ${end}`, pieces: [bytes], end };
}

const times = <Item>(count: number, item: Item): Item[] => new Array<Item>(count).fill(item);

export const WEAKNESSES: readonly Weakness[] = [
  {
    name: "lists are not counted before they are looked at",
    changes: [
      {
        file: "server/openai/bounded.js",
        find: "if (count >= min && count <= max)",
        put: "if (count >= 0)",
      },
      { file: "server/body-shape.js", find: "if (values > valuesMax)", put: "if (false)" },
    ],
    cases: times(8, body("null", { stop_token_ids: repeated("null", 400_000) })),
    foundBy: ["pause", "memory", "alive"],
    quick: false,
  },
  {
    name: "what a request throws leaves the step loop",
    changes: [
      {
        file: "engine/loop/engine.js",
        find: "this.#inDoubt = true;\n            this.#failRequest(record, requestFailure(error));",
        put: "this.#inDoubt = true;\n            throw error;",
      },
      {
        file: "engine/loop/engine.js",
        find: "const verdict = record.acceptTokens(sequence, tokenIds);",
        put:
          "if (sequence.priority === 666) throw new Error('planted');" +
          "const verdict = record.acceptTokens(sequence, tokenIds);",
      },
    ],
    cases: [body("throws", { priority: "666" })],
    foundBy: ["alive"],
    quick: true,
  },
  {
    name: "a request goes on when its client is gone",
    changes: [{ file: "server/admitted.js", find: "controller.abort(hungUp());", put: ";" }],
    // Longer than the server is waited for.
    cases: times(
      16,
      client(
        '{"prompt":"A cache is","max_tokens":1000,"ignore_eos":true,"n":64,"temperature":1}',
        "leaves",
      ),
    ),
    foundBy: ["blocks"],
    quick: false,
  },
  {
    name: "a client that reads nothing is waited for",
    changes: [
      {
        file: "server/write-deadline.js",
        find: "nowMs - mark.sinceMs >= timeoutMs",
        put: "nowMs < 0",
      },
    ],
    cases: times(
      1,
      client(
        '{"prompt":"A cache is","max_tokens":800,"ignore_eos":true,"n":16,"temperature":1,' +
          '"stream":true,"logprobs":20}',
        "stalls",
      ),
    ),
    foundBy: ["blocks"],
    quick: false,
  },
  {
    name: "ids of tokens are not checked against the vocabulary",
    changes: [
      {
        file: "engine/caller/request-check.js",
        find: "Number.isInteger(id) && id >= 0 && id < vocabularySize",
        put: "Number.isInteger(id) && id >= 0",
      },
    ],
    cases: [body("unknown id", { prompt: "[4096]" }), body("bias", { logit_bias: '{"4096":1}' })],
    foundBy: ["answer", "alive", "stream"],
    quick: true,
  },
  {
    name: "what is computed depends on where in the pool it is",
    changes: [
      {
        file: "engine/loop/command-builder.js",
        find: "this.#positions[tokens + place] = start + place;",
        put: "this.#positions[tokens + place] = start + place + +(sequence.blockTable.get(0) % 7 === 6);",
      },
    ],
    cases: times(40, body("ordinary", {})),
    foundBy: ["stream"],
    quick: false,
  },
  {
    name: "a map keeps something of each request",
    changes: [
      {
        file: "server/admission.js",
        find: "this.#running.add(controller);",
        put:
          "this.#running.add(controller);" +
          "(globalThis.kept ??= new Map()).set(controller, Buffer.alloc(4 * 2 ** 20, 1));",
      },
    ],
    cases: times(120, body("ordinary", {})),
    foundBy: ["memory"],
    quick: false,
  },
];

/** The files of the build as the weakness has them. Throws where they are not what it is made for. */
export function plantedFiles({ name, changes }: Weakness): ReadonlyMap<string, string> {
  const files = new Map<string, string>();
  for (const { file, find, put } of changes) {
    const text = files.get(file) ?? readFileSync(join("dist", file), "utf8");
    if (text.split(find).length !== 2) {
      throw new Error(`Cannot plant "${name}": ${file} must have this once: ${find}`);
    }
    files.set(
      file,
      text.replace(find, () => put),
    );
  }
  return files;
}

/** A folder that is run like the repository, with the weakness in its build. Remove it at the end. */
export function plant(weakness: Weakness): { readonly root: string; remove(): void } {
  const root = mkdtempSync(join(tmpdir(), "perigee-weak-"));
  cpSync("dist", join(root, "dist"), { recursive: true });
  cpSync("package.json", join(root, "package.json"));
  for (const folder of ["node_modules", "native", "models"]) {
    symlinkSync(resolve(folder), join(root, folder));
  }
  for (const [file, text] of plantedFiles(weakness)) writeFileSync(join(root, "dist", file), text);
  // Threads start from files into which theirs were joined.
  execFileSync(process.execPath, ["tools/join-modules.mjs", join(root, "dist")]);
  return { root, remove: () => rmSync(root, { recursive: true, force: true }) };
}
