/**
 * The code blocks of the documents, with what stands before each: a block is run or checked by its
 * language, unless a comment says why not.
 *
 *   <!-- not run: needs a GPU -->              its command lines are checked, nothing is run
 *   <!-- needs: redis-server, openssl -->      run where these programs are
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parser } from "@lezer/markdown";

/** How a block is tested. A block without a language holds commands: `shell`. */
export type BlockKind = "shell" | "ts" | "json" | "yaml" | "python" | "text";

const KINDS: Readonly<Record<string, BlockKind>> = {
  "": "shell",
  sh: "shell",
  bash: "shell",
  console: "shell",
  ts: "ts",
  typescript: "ts",
  json: "json",
  yaml: "yaml",
  python: "python",
  text: "text",
};

export interface Block {
  readonly path: string;
  /** Of the opening fence, from 1. */
  readonly line: number;
  /** Null: a language that no test knows. */
  readonly kind: BlockKind | null;
  readonly code: string;
  /** Why it is not run; null: it is. */
  readonly notRun: string | null;
  /** Programs without which it is not run. */
  readonly needs: readonly string[];
}

/** README.md and the documents written by hand; those in docs/api show declarations. */
export function documentPaths(): string[] {
  const docs = readdirSync("docs", { recursive: true, encoding: "utf8" })
    .map((file) => join("docs", file))
    .filter((path) => path.endsWith(".md") && !path.startsWith("docs/api/"));
  return ["README.md", "CONTRIBUTING.md", ...docs.sort()];
}

/** The blocks of a document on the disk. */
export function blocksOfFile(path: string): Block[] {
  return blocksOf(path, readFileSync(path, "utf8"));
}

/** All blocks of a document's text, fenced ones and those that only an indent makes code. */
export function blocksOf(path: string, text: string): Block[] {
  const blocks: Block[] = [];
  let comment = "";
  parser.parse(text).iterate({
    enter({ name, from, to, node }) {
      if (name === "CommentBlock") comment = text.slice(from, to);
      else if (name === "FencedCode" || name === "CodeBlock") {
        const info = node.getChild("CodeInfo");
        const language = info === null ? "" : text.slice(info.from, info.to);
        // An indent alone marks no language: such a block is refused.
        const kind = name === "CodeBlock" ? null : (KINDS[language] ?? null);
        const line = text.slice(0, from).split("\n").length;
        blocks.push({ path, line, kind, code: codeOf(text, from, to, name), ...marksOf(comment) });
      }
      if (name !== "CommentBlock" && node.parent?.name === "Document") comment = "";
    },
  });
  return blocks;
}

/** Between the fences, without the indent that a list gives. */
function codeOf(text: string, from: number, to: number, name: string): string {
  if (name === "CodeBlock") return text.slice(from, to);
  const indent = from - (text.lastIndexOf("\n", from) + 1);
  const lines = text.slice(from, to).split("\n").slice(1, -1);
  return lines.map((line) => `${line.slice(Math.min(indent, line.search(/\S|$/)))}\n`).join("");
}

function marksOf(comment: string): Pick<Block, "notRun" | "needs"> {
  const [, notRun = null] = /<!-- not run: (\S.*?) -->/s.exec(comment) ?? [];
  const [, needs = ""] = /<!-- needs: (.*?) -->/.exec(comment) ?? [];
  return { notRun, needs: needs.split(/,\s*/).filter((program) => program !== "") };
}
