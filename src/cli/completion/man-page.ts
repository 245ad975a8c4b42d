/** The manual page, perigee(1), in the man macros that every man reads. */
import { type CommandModel, everyCommand, type FlagModel } from "./command-model.ts";

/** The page's text. `version` is the package's. */
export function manPage(root: CommandModel, version: string): string {
  const commands = [...everyCommand(root)].filter(({ path }) => path.length > 0);
  return [
    `.TH PERIGEE 1 "" ${quoted(`perigee ${version}`)} "Perigee"`,
    ".SH NAME",
    `perigee \\- ${roff(root.description)}`,
    ".SH SYNOPSIS",
    ".B perigee",
    ".I command",
    "[arguments] [flags]",
    ".SH DESCRIPTION",
    DESCRIPTION,
    ".SH COMMANDS",
    ...root.children.flatMap(({ path, description }) => [
      ".TP",
      `.B ${roff(path.join(" "))}`,
      roff(description),
    ]),
    ".SH FLAGS OF ALL COMMANDS",
    ...root.flags.flatMap(flagLines),
    ...commands.flatMap(commandLines),
    ".SH FILES AND ENVIRONMENT",
    FILES,
    ".SH EXIT STATUS",
    "0 done, 1 failed, 2 wrong use, 130 ended by Ctrl\\-C.",
    "",
  ].join("\n");
}

const DESCRIPTION = `Serves language models with an OpenAI\\-compatible API, and answers prompts and
chats in the terminal. Its centre is the cache of keys and values: a request starts where those of
its prompt already are.`;

const FILES = `Any flag may stand in a YAML file that
.B \\-\\-config
names, without its dashes, or in a variable: \\-\\-kv\\-pool\\-bytes is PERIGEE_KV_POOL_BYTES. A
flag wins over a variable, a variable over the file. See
.B perigee config \\-\\-help
and
.BR perigee\\ completion\\ \\-\\-help .`;

function commandLines({ path, description, flags, arguments: taken }: CommandModel): string[] {
  const usage = ["perigee", ...path, ...taken.map((each) => each.usage)].join(" ");
  const groups = new Map<string, FlagModel[]>();
  for (const flag of flags) {
    const group = flag.group ?? "Options";
    groups.set(group, [...(groups.get(group) ?? []), flag]);
  }
  return [
    `.SH ${quoted(["perigee", ...path].join(" ").toUpperCase())}`,
    `.B ${roff(usage)}`,
    ".PP",
    roff(description),
    ...taken.flatMap((each) => [".TP", `.I ${roff(each.usage)}`, roff(each.description)]),
    ...[...groups].flatMap(([group, inGroup]) => [
      `.SS ${quoted(group)}`,
      ...inGroup.flatMap(flagLines),
    ]),
  ];
}

function flagLines({ usage, description }: FlagModel): string[] {
  return [".TP", `.B ${roff(usage)}`, roff(description)];
}

/** Text without roff's controls: dashes that can be copied, no line that begins with a control. */
function roff(text: string): string {
  return text
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replace(/\s+/g, " ")
    .replace(/^(['.])/, "\\&$1");
}

function quoted(text: string): string {
  return `"${roff(text).replaceAll('"', "\\(dq")}"`;
}
