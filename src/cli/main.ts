#!/usr/bin/env node
/** `perigee`: parses arguments, runs a command, turns failures into one line and an exit code. */
import { Command, CommanderError } from "commander";
import { EngineError, messageOf } from "#base";
import { addBenchCommand } from "./commands/bench.ts";
import { addChatCommand } from "./commands/chat.ts";
import { addDoctorCommand } from "./commands/doctor.ts";
import { addGenerateCommand } from "./commands/generate.ts";
import { addModelsCommand } from "./commands/models.ts";
import { addServeCommand } from "./commands/serve.ts";
import { EXIT_FAILED, EXIT_WRONG_USE } from "./exit-codes.ts";
import { packageVersion } from "./package-root.ts";

/** Failures that the user mends by calling differently. */
const WRONG_USE = new Set(["INVALID_ARGUMENT", "PROMPT_TOO_LONG", "TOKENIZER_MISSING"]);

function program(): Command {
  const root = new Command("perigee")
    .description("LLM serving built around the KV cache.")
    .version(packageVersion(), "-V, --version")
    .option("--verbose", "on failure, print the stack too")
    .configureHelp({ showGlobalOptions: true })
    .showSuggestionAfterError()
    .exitOverride();
  addServeCommand(root);
  addGenerateCommand(root);
  addChatCommand(root);
  addBenchCommand(root);
  addModelsCommand(root);
  addDoctorCommand(root);
  return root;
}

function report(thrown: unknown, verbose: boolean): number {
  if (thrown instanceof CommanderError) {
    // Commander has printed its own line; help and version end with 0.
    return thrown.exitCode === 0 ? 0 : EXIT_WRONG_USE;
  }
  process.stderr.write(`perigee: ${messageOf(thrown)}\n`);
  if (verbose && thrown instanceof Error) process.stderr.write(`${stackOf(thrown)}\n`);
  return thrown instanceof EngineError && WRONG_USE.has(thrown.code) ? EXIT_WRONG_USE : EXIT_FAILED;
}

function stackOf(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${stackOf(error.cause)}` : "";
  return `${error.stack ?? error.message}${cause}`;
}

async function main(): Promise<void> {
  const verbose = process.argv.includes("--verbose");
  // A closed pipe (`perigee … | head`) is the reader's choice, not a failure.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    throw error;
  });
  try {
    await program().parseAsync(process.argv);
  } catch (thrown) {
    process.exitCode = report(thrown, verbose);
  }
}

await main();
