/** One call of `perigee`: its words in, an exit code out; failures become one line. */
import { Command, CommanderError, type Option } from "commander";
import { EngineError, messageOf } from "#base";
import { COMMANDS } from "./commands.ts";
import { EXIT_FAILED, EXIT_INTERRUPTED, EXIT_WRONG_USE } from "./exit-codes.ts";
import { withPlainSwitches } from "./flag-option.ts";
import { Interrupted } from "./interruption.ts";
import { packageVersion } from "./package-root.ts";
import { plainText } from "./terminal-text.ts";

/** Failures that the user can fix by changing the command line. */
const WRONG_USE = new Set([
  "INVALID_ARGUMENT",
  "PROMPT_TOO_LONG",
  "TOKENIZER_MISSING",
  "GRAMMAR_INVALID",
]);

/** All commands by name, with code only for the called one: `doctor` needs no web server. */
async function program(wanted: string | undefined): Promise<Command> {
  const root = new Command("perigee")
    .description("LLM serving built around the KV cache.")
    .version(packageVersion(), "-V, --version", "Print the version.")
    .helpOption("-h, --help", "Print this help.")
    .helpCommand("help [command]", "Print help of a command.")
    .option("--verbose", "Print loading times, and the stack trace of an error, on standard error.")
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({ outputError: (text, write) => write(oneLine(text, "perigee --help")) })
    .showSuggestionAfterError()
    .exitOverride()
    // In any position, commander assigns it to the program: copy it to the command's options.
    .hook("preAction", (whole, command) => {
      if (whole.opts().verbose === true) command.setOptionValue("verbose", true);
    });
  for (const { name, description, load } of COMMANDS) {
    const command = root.command(name).description(description);
    const help = `perigee ${name} --help`;
    command.configureOutput({ outputError: (text, write) => write(oneLine(text, help)) });
    if (name === wanted) (await load())(command);
  }
  return root;
}

/** Commander's `error: …` in the format of our errors, with its suggestion or a hint to help. */
function oneLine(text: string, help: string): string {
  const problem = text
    .replace(/^error: /, "")
    .trim()
    .replaceAll("\n", " ");
  const isNamed = /^(unknown|missing|too many)|argument missing$/.test(problem);
  const remedy = isNamed && !problem.includes("(Did you mean") ? `; see ${help}` : "";
  return `perigee: ${problem}${remedy}\n`;
}

function report(thrown: unknown, verbose: boolean): number {
  if (thrown instanceof CommanderError) {
    // Commander has printed its own line; help and version exit with 0.
    return thrown.exitCode === 0 ? 0 : EXIT_WRONG_USE;
  }
  process.stderr.write(`perigee: ${plainText(messageOf(thrown))}\n`);
  if (thrown instanceof Interrupted) return EXIT_INTERRUPTED;
  if (verbose && thrown instanceof Error) process.stderr.write(`${plainText(stackOf(thrown))}\n`);
  return thrown instanceof EngineError && WRONG_USE.has(thrown.code) ? EXIT_WRONG_USE : EXIT_FAILED;
}

function stackOf(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${stackOf(error.cause)}` : "";
  return `${error.stack ?? error.message}${cause}`;
}

/** The first word that is not a flag; `help serve` is `serve --help`. */
function wantedCommand(words: readonly string[]): string | undefined {
  const [first, second] = words.filter((word) => !word.startsWith("-"));
  return first === "help" ? second : first;
}

/** The options of a command and of all its subcommands. */
function optionsOf(command: Command): Option[] {
  return [...command.options, ...command.commands.flatMap(optionsOf)];
}

/** Runs a command on the standard streams of this process, and never rejects. */
export async function run(words: readonly string[]): Promise<number> {
  try {
    const root = await program(wantedCommand(words));
    await root.parseAsync(withPlainSwitches(words, optionsOf(root)), { from: "user" });
    return 0;
  } catch (thrown) {
    return report(thrown, words.includes("--verbose"));
  }
}
