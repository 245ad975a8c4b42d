import type { Command } from "commander";
import { EngineError } from "#base";
import type { Attributes, IngestCounts, IngestReport } from "#rag";
import { appendText } from "../flag-option.ts";
import { inFlags } from "../flags.ts";
import { Interrupted, Interruption } from "../interruption.ts";
import { plainText, shownText } from "../terminal-text.ts";
import {
  addEmbedderFlag,
  addPlaceFlags,
  ingestFlags,
  openRag,
  type RagFlags,
} from "./rag-flags.ts";

interface IngestFlags extends RagFlags {
  readonly attribute?: readonly string[];
}

/** `perigee rag ingest`. */
export function defineIngest(command: Command): void {
  command
    .description(
      "Read files and folders into a corpus, or bring it up to date: what did not change is not " +
        "read again, and documents whose files are gone are removed. Ended early, the same " +
        "command goes on where it stopped.",
    )
    .argument("<path...>", "Files, folders and patterns such as docs/**/*.md; .gitignore counts.")
    .option("--attribute <name=value>", "Of all chunks, for filters; may be repeated.", appendText)
    .option("--json", "Print the report as JSON.")
    .action((paths: string[], flags: IngestFlags) =>
      ingest(paths, flags).catch((thrown: unknown) => {
        throw inFlags(thrown, ingestFlags);
      }),
    );
  addEmbedderFlag(addPlaceFlags(command));
  ingestFlags.addTo(command, "Reading and cutting:");
}

async function ingest(paths: readonly string[], flags: IngestFlags): Promise<void> {
  ingestFlags.check(flags);
  const attributes = attributesOf(flags.attribute ?? []);
  using interruption = new Interruption();
  const { signal } = interruption;
  await using rag = await openRag(flags, { create: true });
  const settings = ingestFlags.collect(flags);
  let report: IngestReport | null = null;
  try {
    for await (const event of rag.ingest(paths, {
      ...{ corpus: flags.corpus, attributes, settings, signal },
    })) {
      if (event.type === "problem") tell(`${event.state} ${event.id}: ${event.reason}`);
      if (event.type === "progress") showProgress(event);
      if (event.type === "report") report = event;
    }
  } catch (thrown) {
    clearProgress();
    if (signal.aborted) throw new Interrupted("what was stored stays; run it again to go on");
    throw thrown;
  }
  clearProgress();
  if (report === null) return;
  say(flags.json === true ? `${JSON.stringify(report)}\n` : summary(report, flags.corpus));
  if (report.failed > 0) {
    const problem = `${report.failed} of ${report.files} files or rows failed`;
    throw new EngineError("IO", `Cannot ingest all: ${problem}, the others are stored`);
  }
}

function summary(report: IngestReport, corpus: string): string {
  const { documents, stored, unchanged, removed, skipped, chunksStored, seconds } = report;
  const parts = [`${stored} stored`, `${unchanged} unchanged`];
  if (removed > 0) parts.push(`${removed} removed`);
  if (skipped > 0) parts.push(`${skipped} skipped`);
  return (
    `${corpus}: ${documents} documents (${parts.join(", ")}), ${chunksStored} chunks in ` +
    `${seconds.toFixed(1)} s\n`
  );
}

/** A line of its own on standard error. */
function tell(text: string): void {
  clearProgress();
  process.stderr.write(`perigee: ${plainText(text)}\n`);
}

/** Counts on a terminal, on one line; nothing in a pipe. */
function showProgress({ documents, chunksStored, chunksPerSecond }: IngestCounts): void {
  if (!process.stderr.isTTY) return;
  const speed = Math.round(chunksPerSecond);
  process.stderr.write(
    `\r\u001b[K${documents} documents, ${chunksStored} chunks stored, ${speed} chunks/s`,
  );
}

function clearProgress(): void {
  if (process.stderr.isTTY) process.stderr.write("\r\u001b[K");
}

/** `--attribute year=1843 --attribute draft=false`: numbers and booleans are themselves. */
function attributesOf(given: readonly string[]): Attributes {
  return Object.fromEntries(
    given.map((text) => {
      const at = text.indexOf("=");
      if (at > 0) return [text.slice(0, at), attributeValue(text.slice(at + 1))];
      throw new EngineError(
        "INVALID_ARGUMENT",
        `Cannot use --attribute: must be NAME=VALUE, current value is ${text}`,
        { param: "--attribute" },
      );
    }),
  );
}

function attributeValue(text: string): string | number | boolean {
  if (text === "true" || text === "false") return text === "true";
  return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : text;
}

function say(text: string): void {
  process.stdout.write(shownText(text));
}
