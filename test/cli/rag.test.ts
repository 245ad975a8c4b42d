/** `perigee rag`, as it is called in a shell. */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Command } from "commander";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { defineRag } from "../../src/cli/commands/rag.ts";
import { recordedLayout, rerankerFolder } from "../rag/embedders/recorded-layout.ts";
import { built, jsonLines, perigee, perigeeInside } from "./perigee.ts";

let folder: string;
/** A decoder's mean vectors serve as an embedder: the words decide here. */
const embedder = ["--embedder", resolve("models/pocket")];
const place = () => ["--store", join(folder, "store")];
const rag = (...words: string[]) => perigeeInside(["rag", ...words, ...place()]);
const notes = () => join(folder, "notes");
const crossEncoder = () => {
  const recorded = recordedLayout("bert").rerankers.logits;
  if (recorded === undefined) throw new Error("no reranker was recorded");
  return rerankerFolder("bert", recorded);
};

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "perigee-rag-cli-"));
  mkdirSync(notes());
  const bridges = "# Bridges\n\nThe Orlen bridge was built in 1931 by Tamsin Vorle.\n";
  writeFileSync(join(notes(), "bridges.md"), bridges);
  const towns = "# Towns\n\nSarvik has a population of 18,240. Its mayor is Ilka Brand.\n";
  writeFileSync(join(notes(), "towns.md"), towns);
});
afterAll(() => rmSync(folder, { recursive: true }));

describe("perigee rag", () => {
  it("[RG96] its help is a manual", () => {
    const command = new Command("rag");
    let text = "";
    command.configureOutput({ writeOut: (more) => (text += more) });
    defineRag(command);
    command.outputHelp();
    for (const word of ["ingest", "search", "ask", "status", "remove"]) {
      expect(text).toContain(`perigee rag ${word}`);
    }
    expect(text).toContain(".perigee/rag below the working folder");
    expect(text).toMatch(/Exit codes: 0 done, 1 failed, 2 wrong use, 130/);
  });

  it.each([
    [["ask", "Why?", "--sources-max", "0"], "--sources-max"],
    [["ask", "Why?", "--filter", "{"], "--filter"],
    [["search", "x", "--limit", "many"], "--limit"],
    [["search", "x", "--mode", "magic"], "--mode"],
    [["ingest", "x", "--chunk-tokens", "1"], "--chunk-tokens"],
    [["ingest", "x", "--attribute", "year"], "--attribute"],
    [["ingest"], "path"],
    [["remove"], "--all"],
    [["remove", "a.md", "--all"], "--all"],
  ])("[RG96] %j is wrong use, and says of what", async (words, named) => {
    const { code, stdout, stderr } = await rag(...words);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(named);
    expect(stderr.trim()).not.toContain("\n");
  });

  it.each([
    [],
    ["nothing"],
    ["search"],
    ["ask", "x", "y"],
    ["status", "--unknown"],
    ["remove", "a.md", "--store"],
  ])("[RG120] a command line that is none is wrong use: %j", async (...words) => {
    const { code, stdout } = await perigeeInside(["rag", ...words]);
    expect([code, stdout]).toEqual([2, ""]);
  });

  it.each([
    ["ingest", "none-such.md", ...embedder],
    ["ingest", "x", "--embedder", "none/such"],
    ["search", "x", ...embedder],
    ["ask", "x", ...embedder],
    ["status"],
    ["remove", "--all"],
  ])("[RG120] what fails has an exit code that says so: %j", async (...words) => {
    const file = join(folder, "a file");
    writeFileSync(file, "");
    const { code, stdout, stderr } = await perigeeInside(["rag", ...words, "--store", file]);
    expect([1, 2]).toContain(code);
    expect(stdout).toBe("");
    expect(stderr).toMatch(/^perigee: /m);
  });

  it.each([
    ["status"],
    ["search", "bridge", ...embedder],
    ["ask", "Which bridge?", ...embedder],
    ["remove", "--all"],
  ])("[RG120] %s makes no store where there is none", async (...words) => {
    const { code, stdout, stderr } = await rag(...words);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain("there is none; ingest documents into it first");
    expect(existsSync(join(folder, "store"))).toBe(false);
  });
});

describe("perigee rag, in a folder", () => {
  it("[RG96] reads, finds, lists and removes", async () => {
    const first = await rag("ingest", notes(), ...embedder, "--attribute", "year=1931");
    expect(first.stdout).toMatch(/^default: 2 documents \(2 stored, 0 unchanged\), 2 chunks in /);
    const again = await rag("ingest", notes(), ...embedder, "--attribute", "year=1931", "--json");
    expect(JSON.parse(again.stdout)).toMatchObject({ stored: 0, unchanged: 2, failed: 0 });

    const found = await rag("search", "population of Sarvik", ...embedder, "--json");
    const [hit] = jsonLines(found.stdout);
    expect(hit).toMatchObject({ headings: ["Towns"], attributes: { year: 1931 } });
    expect(hit?.document).toMatch(/notes\/towns\.md$/);
    const filter = JSON.stringify({ type: "lt", key: "year", value: 1900 });
    const none = await rag("search", "Sarvik", ...embedder, "--filter", filter);
    expect(none).toMatchObject({ code: 0, stdout: "" });

    const unknown = await rag("search", "bridge", ...embedder, "--corpus", "unknown");
    expect(unknown.code).toBe(2);
    expect(unknown.stderr).toContain("there is none of this name; ingest documents into it first");
    const listed = await rag("status", "--documents", "--corpus", "unknown");
    expect(listed).toMatchObject({ code: 2, stdout: "" });
    expect(listed.stderr).toContain("the documents of corpus unknown: there is none of this name");
    const { stdout } = await rag("status");
    expect(stdout).toMatch(
      /^store\tfolder .*store\n(note.*\n)*default\t2 documents, 2 chunks, 384/,
    );
    const [name = ""] = (await rag("status", "--documents")).stdout.split("\t");
    expect(name).toMatch(/notes\/bridges\.md$/);
    expect((await rag("remove", name)).stdout).toBe(`removed ${name}\t1 chunks\n`);
    expect(await rag("remove", name)).toMatchObject({ code: 2, stdout: "" });
    expect((await rag("remove", "--all")).stdout).toBe("removed default\t1 chunks\n");
    expect(JSON.parse((await rag("status", "--json")).stdout).corpora).toEqual([]);
  });

  it("[RG96] a file that cannot be read is told, and fails the call after the others", async () => {
    writeFileSync(join(notes(), "binary.md"), Buffer.from([0, 1, 2, 3, 0, 255, 254, 0]));
    const ran = await rag("ingest", notes(), ...embedder, "--corpus", "second");
    expect(ran.code).toBe(1);
    expect(ran.stdout).toMatch(/^second: \d documents \(2 stored/);
    expect(ran.stderr).toMatch(/perigee: failed .*binary\.md: /);
    expect(ran.stderr).toMatch(/Cannot ingest all: 1 of 3 files or rows failed/);
  });

  it("[RG120] a cross-encoder orders what was found, and another model is refused", async () => {
    const words = ["--corpus", "fourth", ...embedder];
    await rag("ingest", join(notes(), "towns.md"), join(notes(), "bridges.md"), ...words);
    const found = async (model: string) =>
      await rag("search", "Who built it?", ...words, "--reranker", resolve(model), "--json");
    const { stdout } = await found(crossEncoder());
    const relevances = jsonLines(stdout).map(({ relevance }) => Number(relevance));
    expect(relevances).toHaveLength(2);
    expect(relevances).toEqual(relevances.toSorted((a, b) => b - a));
    const refused = await found("models/pocket");
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toContain("a cross-encoder is wanted");
  });

  it.runIf(built)("[RG120] no question at all is wrong use", async () => {
    const words = ["rag", "ask", ...embedder, ...place(), "--corpus", "fourth"];
    const { code, stdout, stderr } = await perigee(words, { input: "\n" });
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain("wanted a question as an argument, or one in each line");
  });

  // Answers are streamed to the process's own standard output.
  it.runIf(built)(
    "[RG96] answers with sources, line by line where no question is given",
    async () => {
      await rag("ingest", join(notes(), "towns.md"), ...embedder, "--corpus", "third");
      const words = ["rag", "ask", ...embedder, ...place(), "--corpus", "third"];
      const input = "What is the population of Sarvik?\n\nWho is its mayor?\n";
      const { code, stdout } = await perigee(words, { input });
      expect(code).toBe(0);
      const source = "\\n\\n\\[1\\] \\S*notes/towns\\.md:3 › Towns\\n";
      expect(stdout).toMatch(
        new RegExp(`^18,240 \\[1\\]${source}.*Ilka Brand.* \\[1\\]${source}$`),
      );
    },
  );
});
