/** One call of `perigee`: its words in, an exit code out; failures become one line. */
import { type Command, CommanderError, type Option } from "commander";
import { EngineError, messageOf } from "#base";
import { EXIT_FAILED, EXIT_INTERRUPTED, EXIT_WRONG_USE } from "./exit-codes.ts";
import { withPlainSwitches } from "./flag-option.ts";
import { Interrupted } from "./interruption.ts";
import { loadProgram } from "./program.ts";
import { plainText } from "./terminal-text.ts";

/** Failures that the user can fix by changing the command line. */
const WRONG_USE = new Set([
  "INVALID_ARGUMENT",
  "PROMPT_TOO_LONG",
  "TOKENIZER_MISSING",
  "GRAMMAR_INVALID",
]);

function report(thrown: unknown, verbose: boolean): number {
  if (thrown instanceof CommanderError) {
    // Commander has printed its own line; help and version exit with 0.
    return thrown.exitCode === 0 ? 0 : EXIT_WRONG_USE;
  }
  process.stderr.write(`perigee: ${plainText(messageOf(thrown))}${remedyOf(thrown)}\n`);
  if (thrown instanceof Interrupted) return EXIT_INTERRUPTED;
  if (verbose && thrown instanceof Error) process.stderr.write(`${plainText(stackOf(thrown))}\n`);
  return thrown instanceof EngineError && WRONG_USE.has(thrown.code) ? EXIT_WRONG_USE : EXIT_FAILED;
}

/** For failures of the system that any part of a command may meet. */
function remedyOf(thrown: unknown): string {
  const code = thrown instanceof Error && "code" in thrown ? thrown.code : null;
  return code === "EMFILE" ? "; allow more of them: ulimit -n 65536" : "";
}

function stackOf(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${stackOf(error.cause)}` : "";
  return `${error.stack ?? error.message}${cause}`;
}

/** The first word that is no flag, and no file of --config; `help serve` is `serve --help`. */
function wantedCommand(words: readonly string[]): string | undefined {
  const [first, second] = words.filter(
    (word, place) => !word.startsWith("-") && words[place - 1] !== "--config",
  );
  return first === "help" ? second : first;
}

/** The options of a command and of all its subcommands. */
function optionsOf(command: Command): Option[] {
  return [...command.options, ...command.commands.flatMap(optionsOf)];
}

/** Runs a command on the standard streams of this process, and never rejects. */
export async function run(words: readonly string[]): Promise<number> {
  try {
    const root = await loadProgram(wantedCommand(words));
    await root.parseAsync(withPlainSwitches(words, optionsOf(root)), { from: "user" });
    return 0;
  } catch (thrown) {
    return report(thrown, words.includes("--verbose"));
  }
}
