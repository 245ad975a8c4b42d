/**
 * Completion for bash, as a script of its own: it holds all flags and words, so that no process is
 * started when a key is pressed, and needs no package of completions.
 */
import { type CommandModel, everyCommand, type FlagModel } from "./command-model.ts";

/** The script. */
export function bashCompletion(root: CommandModel): string {
  return `# Completion of perigee for bash: source <(perigee completion bash)

# The commands below the one that is called $1.
_perigee_commands() {
  case "$1" in
${caseLines(root, ({ children }) => children.map(({ path }) => path.at(-1) ?? ""))}
  esac
}

# The flags of the command that is called $1.
_perigee_flags() {
  case "$1" in
${caseLines(root, ({ flags }) => flags.flatMap(namesOf))}
  esac
}

# What may follow flag $2 of command $1: words, @ for a text, # for a number, ? before words that
# may be left out, or nothing.
_perigee_values() {
  case "$1:$2" in
${valueLines(root)}
  esac
}
${FUNCTION}`;
}

const FUNCTION = `
_perigee() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]}
  local path="" place word words values flags
  # "=" is a word of its own: --device=c is three words.
  if [[ $cur == = ]]; then cur=""
  elif [[ $prev == = ]]; then prev=\${COMP_WORDS[COMP_CWORD - 2]}; fi
  COMPREPLY=()
  for ((place = 1; place < COMP_CWORD; place++)); do
    word=\${COMP_WORDS[place]}
    if [[ $word == -* ]]; then
      values=$(_perigee_values "$path" "$word")
      # The word behind a flag that needs one is no command.
      if [[ -n $values && $values != "?"* ]]; then
        if [[ \${COMP_WORDS[place + 1]} == = ]]; then ((place += 2)); else ((place++)); fi
      fi
    elif [[ " $(_perigee_commands "$path") " == *" $word "* ]]; then
      path="\${path:+$path }$word"
    fi
  done
  values=""
  if [[ $prev == -* ]]; then values=$(_perigee_values "$path" "$prev"); fi
  case "$values" in
    "") ;;
    "@") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames; return ;;
    "#") return ;;
    "? "*) mapfile -t COMPREPLY < <(compgen -W "\${values#"? "}" -- "$cur")
      if [[ $cur != "" && \${#COMPREPLY[@]} -gt 0 ]]; then return; fi ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur"); return ;;
  esac
  if [[ $cur == -* ]]; then
    flags="$(_perigee_flags "$path") --verbose --config --print-config"
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
    return
  fi
  words=$(_perigee_commands "$path")
  mapfile -t -O "\${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$words" -- "$cur")
  # A command without commands below it takes files, models and traces.
  if [[ $path != "" && $words == "" ]]; then
    mapfile -t -O "\${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
    compopt -o filenames
  fi
}
complete -F _perigee perigee
`;

function caseLines(
  root: CommandModel,
  wordsOf: (model: CommandModel) => readonly string[],
): string {
  return [...everyCommand(root)]
    .map((model) => [model.path.join(" "), wordsOf(model).join(" ")] as const)
    .filter(([, words]) => words !== "")
    .map(([path, words]) => `    ${quoted(path)}) echo ${quoted(words)} ;;`)
    .join("\n");
}

/** A flag that means the same everywhere has one line; where commands differ, each has its own. */
function valueLines(root: CommandModel): string {
  const byFlag = new Map<string, Map<string, string[]>>();
  for (const { path, flags } of everyCommand(root)) {
    for (const flag of flags) {
      const text = valueText(flag);
      for (const name of namesOf(flag)) {
        const texts = byFlag.get(name) ?? new Map<string, string[]>();
        texts.set(text, [...(texts.get(text) ?? []), path.join(" ")]);
        byFlag.set(name, texts);
      }
    }
  }
  const lines: string[] = [];
  for (const [name, texts] of byFlag) {
    const isOne = texts.size === 1;
    for (const [text, paths] of texts) {
      if (text === "") continue;
      const patterns = isOne ? [`*:${name}`] : paths.map((path) => quoted(`${path}:${name}`));
      lines.push(`    ${patterns.join(" | ")}) echo ${quoted(text)} ;;`);
    }
  }
  return lines.join("\n");
}

function namesOf({ long, short }: FlagModel): readonly string[] {
  return short === null ? [long] : [long, short];
}

function valueText({ value }: FlagModel): string {
  switch (value.kind) {
    case "none":
      return "";
    case "text":
      return "@";
    case "number":
      return "#";
    default:
      return `${value.optional ? "? " : ""}${value.words.join(" ")}`;
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
