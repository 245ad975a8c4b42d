/** Completion for fish. */
import { type CommandModel, everyCommand, type FlagModel } from "./command-model.ts";

/** The script, for `~/.config/fish/completions/perigee.fish` or for `source`. */
export function fishCompletion(root: CommandModel): string {
  const models = [...everyCommand(root)];
  const names = models.flatMap(({ path }) => (path.length === 0 ? [] : [path.join(" ")]));
  const taking = new Set(models.flatMap(({ flags }) => flags.filter(takesWord).flatMap(namesOf)));
  return `# Completion of perigee for fish: perigee completion fish | source

# The command so far, without flags and their values.
function __perigee_path
    set -l path
    set -l is_value 0
    for word in (commandline -opc)[2..-1]
        if test $is_value = 1
            set is_value 0
            continue
        end
        if string match -q -- '-*' $word
            contains -- $word ${[...taking].join(" ")}; and set is_value 1
            continue
        end
        set -l longer (string join -- ' ' $path $word)
        if contains -- "$longer" ${names.map(quoted).join(" ")}
            set path $path $word
        end
    end
    string join -- ' ' $path
end

function __perigee_at
    test (__perigee_path | string collect --allow-empty) = "$argv"
end

complete -c perigee -f
${models.flatMap(commandLines).join("\n")}
`;
}

/** Whether the word behind the flag is its own, even where it is the name of a command. */
function takesWord({ value }: FlagModel): boolean {
  return value.kind !== "none" && !(value.kind === "words" && value.optional);
}

function namesOf({ long, short }: FlagModel): readonly string[] {
  return short === null ? [long] : [long, short];
}

function commandLines({ path, flags, children, arguments: taken }: CommandModel): string[] {
  const at = `complete -c perigee -n ${quoted(`__perigee_at ${path.join(" ")}`.trimEnd())}`;
  return [
    ...children.map(
      (child) => `${at} -a ${quoted(child.path.at(-1) ?? "")} -d ${quoted(child.description)}`,
    ),
    ...(path.length > 0 && taken.length > 0 ? [`${at} -F`] : []),
    ...flags.map((flag) => `${at} ${flagText(flag)}`),
  ];
}

function flagText({ long, short, description, value }: FlagModel): string {
  const names = `-l ${long.slice(2)}${short === null ? "" : ` -s ${short.slice(1)}`}`;
  const told = `-d ${quoted(description)}`;
  switch (value.kind) {
    case "none":
      return `${names} ${told}`;
    case "words":
      return `${names} ${value.optional ? "-f" : "-x"} -a ${quoted(value.words.join(" "))} ${told}`;
    case "number":
      return `${names} -x ${told}`;
    default:
      return `${names} -r -F ${told}`;
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
