import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Found, isBelow, rootsOf, walk } from "#rag/readers";
import { folder } from "../ingest/ingest-cases.ts";

async function found(base: string, ...paths: string[]): Promise<Found[]> {
  const all: Found[] = [];
  for (const root of rootsOf(paths, base)) for await (const one of walk(root)) all.push(one);
  return all;
}

const names = (all: readonly Found[]) => all.map(({ id }) => id);

describe("walk", () => {
  it("[RG35] leaves out what .gitignore files name, the deeper one first", async () => {
    const base = folder({
      ...{ ".git/HEAD": "", ".gitignore": "*.log\nbuild/\n/top.txt\n", "a.log": "", "a.txt": "" },
      ...{ "build/b.txt": "", "top.txt": "", "in/top.txt": "", "in/keep.log": "", "in/c.log": "" },
      ...{ "in/.gitignore": "!keep.log\ndeep/*.txt\n", "in/deep/x.txt": "", "in/deep/y.md": "" },
      ...{ ".hidden/z.md": "", ".env": "" },
    });
    expect(names(await found(base, "."))).toEqual([
      ...["a.txt", "in/deep/y.md", "in/keep.log", "in/top.txt"],
    ]);
  });

  it("[RG35] applies rules above a root up to the repository's top, but to the root itself", async () => {
    const base = folder({
      ...{ ".gitignore": "*\n", "repo/.git/HEAD": "", "repo/.gitignore": "*.log\nout/\n" },
      ...{ "repo/docs/a.log": "", "repo/docs/a.md": "", "repo/out/b.md": "", "repo/out/b.log": "" },
    });
    expect(names(await found(base, "repo/docs"))).toEqual(["repo/docs/a.md"]);
    expect(names(await found(base, "repo"))).toEqual(["repo/docs/a.md"]);
    expect(names(await found(base, "repo/out"))).toEqual(["repo/out/b.log", "repo/out/b.md"]);
  });

  it("[RG35] is not slowed by a rule of many stars", async () => {
    const name = "a".repeat(200);
    const rules = `${"*a".repeat(40)}*b\n${"**/a/".repeat(20)}\nleft.md\n`;
    const base = folder({ ".gitignore": rules, [`${name}.md`]: "", "left.md": "" });
    expect(names(await found(base, "."))).toEqual([`${name}.md`]);
  });

  it("[RG35] finds what a pattern names, hidden names if it has some", async () => {
    const base = folder({ "a.md": "", "x/b.md": "", "x/b.txt": "", ".x/c.md": "", "[y]/d.md": "" });
    expect(names(await found(base, "**/*.md"))).toEqual(["[y]/d.md", "a.md", "x/b.md"]);
    expect(names(await found(base, "x/*"))).toEqual(["x/b.md", "x/b.txt"]);
    expect(names(await found(base, ".x/*.md"))).toEqual([".x/c.md"]);
    expect(names(await found(base, "**/.x/*"))).toEqual([".x/c.md"]);
    expect(names(await found(base, "[y]"))).toEqual(["[y]/d.md"]);
  });

  it("[RG36] neither follows links nor opens pipes and sockets, and says so", async () => {
    const base = folder({ "a.md": "", "inner/b.md": "" });
    symlinkSync(base, join(base, "loop"));
    symlinkSync("/etc/hostname", join(base, "inner/link.md"));
    execFileSync("mkfifo", [join(base, "pipe.md")]);
    const server = createServer().listen(join(base, "socket.md"));
    onTestFinished(() => void server.close());
    await new Promise((resolve) => server.once("listening", resolve));
    expect(await found(base, ".")).toEqual([
      { type: "file", id: "a.md", path: join(base, "a.md") },
      { type: "file", id: "inner/b.md", path: join(base, "inner/b.md") },
      { type: "skipped", id: "inner/link.md", reason: "is a link, which is not followed" },
      { type: "skipped", id: "loop", reason: "is a link, which is not followed" },
      { type: "skipped", id: "pipe.md", reason: "is a pipe" },
      { type: "skipped", id: "socket.md", reason: "is a socket" },
    ]);
  });

  it("[RG36] reads a root that is a link, and no folder deeper than its bound", async () => {
    const base = folder({ "real/a.md": "" });
    symlinkSync(join(base, "real"), join(base, "link"));
    expect(names(await found(base, "link"))).toEqual(["link/a.md"]);
    const deep = "d/".repeat(70);
    mkdirSync(join(base, "deep", deep), { recursive: true });
    const [problem, ...rest] = await found(base, "deep");
    expect(rest).toEqual([]);
    expect(problem).toMatchObject({
      type: "failed",
      reason: expect.stringContaining("64 folders"),
    });
  });
});

describe("isBelow", () => {
  it("[RG48] tells documents of a root from others", () => {
    const base = folder({ "docs/a.md": "", "rows.csv": "" });
    const [docs, all, rows, pattern] = rootsOf(["docs", ".", "rows.csv", "docs/*.md"], base);
    if (!docs || !all || !rows || !pattern) throw new Error("no roots");
    const ids = ["docs/a.md", "docs/in/b.md", "docs2/a.md", "rows.csv#1", "/x/a.md", "https://x/a"];
    const below = (root: typeof docs) => ids.filter((id) => isBelow(root, id));
    expect(below(docs)).toEqual(["docs/a.md", "docs/in/b.md"]);
    expect(below(all)).toEqual(ids.slice(0, 4));
    expect(below(rows)).toEqual(["rows.csv#1"]);
    expect(below(pattern)).toEqual(["docs/a.md"]);
  });
});
