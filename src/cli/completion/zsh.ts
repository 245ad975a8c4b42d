/** Completion for zsh, by its own `_arguments`. */
import { type CommandModel, everyCommand, type FlagModel } from "./command-model.ts";

/** The script, for a file `_perigee` in a folder of `fpath`, or for `source`. */
export function zshCompletion(root: CommandModel): string {
  const functions = [...everyCommand(root)].map(functionOf);
  return `#compdef perigee
# Completion of perigee for zsh: source <(perigee completion zsh)

${functions.join("\n\n")}

if [ "$funcstack[1]" = "_perigee" ]; then
  _perigee "$@"
else
  compdef _perigee perigee
fi
`;
}

function functionOf(model: CommandModel): string {
  const { path, flags, children } = model;
  const specs = flags.flatMap(flagSpecs);
  const name = functionName(path);
  if (children.length === 0) {
    const rest = path.length > 0 ? ["'*: :_files'"] : [];
    return `${name}() {\n  _arguments -s \\\n${joined([...specs, ...rest])}\n}`;
  }
  const commands = children.map(
    (child) => `    ${quoted(`${child.path.at(-1)}:${escaped(child.description)}`)}`,
  );
  const cases = children.map(
    (child) => `        ${child.path.at(-1)}) ${functionName(child.path)} ;;`,
  );
  return `${name}() {
  local state line
  local -a commands
  commands=(
${commands.join("\n")}
  )
  _arguments -C -s \\
${joined([...specs, "'1: :->command'", "'*:: :->rest'"])}
  case $state in
    command) _describe -t commands command commands ;;
    rest)
      case $words[1] in
${cases.join("\n")}
      esac ;;
  esac
}`;
}

function functionName(path: readonly string[]): string {
  return ["_perigee", ...path].join("_").replaceAll("-", "_");
}

function joined(specs: readonly string[]): string {
  return specs.map((spec) => `    ${spec}`).join(" \\\n");
}

function flagSpecs({ long, short, description, value }: FlagModel): readonly string[] {
  const names = short === null ? [long] : [long, short];
  const told = `[${escaped(description)}]`;
  return names.map((name) => {
    // Any flag may be repeated: some are lists.
    switch (value.kind) {
      case "none":
        return quoted(`*${name}${told}`);
      case "words": {
        const colons = value.optional ? "::" : ":";
        return quoted(`*${name}=${told}${colons}word:(${value.words.join(" ")})`);
      }
      case "number":
        return quoted(`*${name}=${told}:number: `);
      default:
        return quoted(`*${name}=${told}:text:_files`);
    }
  });
}

/** Brackets and colons end parts of a spec. */
function escaped(text: string): string {
  return text.replace(/[\\[\]:]/g, "\\$&").replaceAll("\n", " ");
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
