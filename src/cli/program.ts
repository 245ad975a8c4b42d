/** `perigee` with its commands, as commander knows them. */
import { existsSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { COMMANDS } from "./commands.ts";
import { packageVersion } from "./package-root.ts";

/** No command's name: each is wanted. */
const ALL = "*";
/** Commands whose standard error is a log. */
const SERVERS = new Set(["serve", "worker", "route"]);

const FIRST_STEPS = `
  perigee doctor                            what this machine can run
  perigee serve qwen2.5:0.5b --port 8000    download a model, and serve it with OpenAI's API
  perigee serve --help                      flags of a command, with their defaults
  perigee serve --config perigee.yaml       settings in a file: perigee config --help

Each flag may be a variable, too: --kv-pool-bytes is PERIGEE_KV_POOL_BYTES. Results are on standard
output, all else on standard error. Exit codes: 0 done, 1 failed, 2 wrong use, 130 ended by Ctrl-C.
`;

/** The program with the flags of every command. */
function loadAll(): Promise<Command> {
  return loadProgram(ALL);
}

/**
 * All commands by name, with code, arguments and flags only for the one called `wanted`: `doctor`
 * needs no web server.
 */
export async function loadProgram(wanted: string | undefined): Promise<Command> {
  const root = new Command("perigee")
    .description("LLM serving built around the KV cache.")
    .version(packageVersion(), "-V, --version", "Print the version.")
    .helpOption("-h, --help", "Print this help.")
    .helpCommand("help [command]", "Print help of a command.")
    .option("--verbose", "Print loading times, and the stack trace of an error, on standard error.")
    .option(
      "--config <file>",
      "YAML file with settings instead of flags: see perigee config --help. (default: the file " +
        "that PERIGEE_CONFIG names, else none)",
    )
    .option("--print-config", "Print the settings that would be used, as such a file, and end.")
    .addHelpText("after", FIRST_STEPS)
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({ outputError: (text, write) => write(oneLine(text, "perigee --help")) })
    .showSuggestionAfterError()
    .exitOverride()
    .hook("preAction", useGlobalFlags);
  for (const { name, description, load } of COMMANDS) {
    const command = root.command(name).description(description);
    const help = `perigee ${name} --help`;
    command.configureOutput({ outputError: (text, write) => write(oneLine(text, help)) });
    if (name === wanted || wanted === ALL) (await load())(command, loadAll);
    for (const child of command.commands) {
      const ownHelp = `perigee ${name} ${child.name()} --help`;
      child.configureOutput({ outputError: (text, write) => write(oneLine(text, ownHelp)) });
    }
  }
  return root;
}

/** Flags that commander, in any position, gives to the program. */
async function useGlobalFlags(root: Command, command: Command): Promise<void> {
  const { verbose, config, printConfig } = root.opts();
  if (verbose === true) command.setOptionValue("verbose", true);
  const { configure, CONFIG_VARIABLE } = await import("./configuration/apply.ts");
  if (config === undefined && !process.env[CONFIG_VARIABLE]) tellOfUnreadFile();
  const sources = await configure(command, {
    file: config,
    environment: process.env,
    all: loadAll,
  });
  await tellOfMisspeltVariables(command);
  if (printConfig !== true) return;
  const { configurationText } = await import("./configuration/print.ts");
  process.stdout.write(configurationText(command, sources));
  throw new CommanderError(0, "perigee.printConfig", "printed");
}

/** No file is read unasked: a folder that was fetched from elsewhere would set what is served. */
function tellOfUnreadFile(): void {
  if (!process.stderr.isTTY || !existsSync("perigee.yaml")) return;
  process.stderr.write("perigee: ./perigee.yaml is not read; --config perigee.yaml reads it\n");
}

/** What nothing reads would be missed: with an API key under a wrong name a server is open. */
async function tellOfMisspeltVariables(command: Command): Promise<void> {
  const { misspeltVariables } = await import("./configuration/misspelt-variables.ts");
  const found = await misspeltVariables(process.env, command, loadAll);
  if (found.length === 0) return;
  const { startLines } = await import("./start-lines.ts");
  // Logs of servers are JSON where they go to no terminal.
  const terminal = SERVERS.has(command.name()) ? undefined : true;
  const { warn } = startLines(terminal);
  for (const { variable, meant } of found) {
    warn(`${variable} is no variable of perigee and is not read; did you mean ${meant}?`);
  }
}

/** Commander's `error: …` in the format of our errors, with its suggestion or a hint to help. */
function oneLine(text: string, help: string): string {
  const problem = text
    .replace(/^error: /, "")
    .trim()
    .replaceAll("\n", " ")
    .replace(/^(too many arguments .*)\.$/, "$1");
  const isNamed = /^(unknown|missing|too many)|argument missing$/.test(problem);
  const remedy = isNamed && !problem.includes("(Did you mean") ? `; see ${help}` : "";
  return `perigee: ${problem}${remedy}\n`;
}
