/** Blocks of a terminal: their commands, and what the page shows that they print. */

export interface ShownCommand {
  readonly command: string;
  /** What stands below it; null where the page shows nothing. */
  readonly shown: string | null;
  /** Within the block, from 1. */
  readonly line: number;
}

/**
 * The commands of a block. With lines that begin with `$ ` the others are output; without any, each
 * line is a command, and a comment that begins like JSON (`# {`) is what the one above prints.
 */
export function shownCommands(code: string): ShownCommand[] {
  const lines = code.split("\n");
  const isSession = lines.some((line) => line.startsWith("$ "));
  const found: { command: string; shown: string[]; line: number }[] = [];
  for (let index = 0; index < lines.length; index++) {
    const line = lines[index] ?? "";
    const last = found.at(-1);
    if (isSession ? line.startsWith("$ ") : !/^\s*(#|$)/.test(line)) {
      const start = index;
      let command = isSession ? line.slice(2) : line;
      while (isOpen(command) && index + 1 < lines.length) command += `\n${lines[++index]}`;
      found.push({ command, shown: [], line: start + 1 });
    } else if (last !== undefined && (isSession || /^# [[{]/.test(line))) {
      last.shown.push(isSession ? line : line.slice(2));
    }
  }
  return found.map(({ command, shown, line }) => {
    const text = shown.join("\n").trim();
    return { command, shown: text === "" ? null : text, line };
  });
}

/** Whether a quote is open at the end, or a backslash continues the line. */
function isOpen(command: string): boolean {
  return /\\$/.test(command) || tokens(command).open;
}

/**
 * The simple commands of a line, as words: quotes are taken off, pipes, lists, redirections and
 * comments end a command, assignments before it are left out; variables stay as written.
 */
export function simpleCommands(command: string): string[][] {
  return tokens(command)
    .commands.map((words) => {
      const first = words.findIndex((word) => !/^[A-Za-z_]\w*=/.test(word));
      return first === -1 ? [] : words.slice(first);
    })
    .filter((words) => words.length > 0);
}

/** A quote, a part of a word without one, an end of a command, or space with a comment. */
const TOKEN = new RegExp(
  [
    `'([^']*)('|$)`,
    String.raw`"((?:[^"\\]|\\[\s\S])*)("|$)`,
    String.raw`(\d?[<>]+&?\d?|[|&;]+)`,
    // A substitution, a character behind a backslash, or a plain one.
    String.raw`((?:\$\((?:[^()']|'[^']*'|\([^()]*\))*\)|\\[\s\S]|[^\s'"\\|&;<>])+)`,
    String.raw`\s+(?:#[^\n]*)?|[\s\S]`,
  ].join("|"),
  "gy",
);

function tokens(command: string): { commands: string[][]; open: boolean } {
  const commands: string[][] = [[]];
  let word: string | null = null;
  let open = false;
  let isTarget = false;
  const endWord = () => {
    // The word behind < or > is a file.
    if (word !== null && !isTarget) commands.at(-1)?.push(word);
    if (word !== null) isTarget = false;
    word = null;
  };
  for (const token of command.matchAll(TOKEN)) {
    const [all, single, singleEnd, double, doubleEnd, operator, plain] = token;
    if (single !== undefined) open ||= singleEnd === "";
    if (double !== undefined) open ||= doubleEnd === "";
    const part = single ?? double ?? plain?.replace(/\\\n/g, "").replace(/\\(.)/g, "$1");
    if (part !== undefined) {
      if (plain === undefined || part !== "") word = (word ?? "") + part;
      continue;
    }
    endWord();
    if (operator === undefined) {
      if (all.includes("\n")) commands.push([]);
    } else if (/[<>]/.test(operator)) isTarget = !operator.includes("&");
    else commands.push([]);
  }
  endWord();
  return { commands, open };
}

/** The words behind `perigee`, however it is called; null: another program. */
export function perigeeWords(words: readonly string[]): readonly string[] | null {
  if (words[0] === "perigee") return words.slice(1);
  return words[0] === "npx" && words[1] === "perigee" ? words.slice(2) : null;
}

/** Numbers may be others, as sizes of caches, times and scores are by the machine. */
const NUMBER = /-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/gi;

/** Text of a pattern: numbers and white space are free. */
function patternOf(line: string): string {
  return line
    .split(NUMBER)
    .map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/\s+/g, "\\s+"))
    .join("-?\\d[\\d.]*(?:e[+-]?\\d+)?");
}

/**
 * Whether a program printed what a page shows: `…` stands for any text, a number for any number.
 * Of JSON, white space counts nothing, and fields may be left out between two that are shown; so
 * may lines of text.
 */
export function printsAsShown(shown: string, printed: string): boolean {
  const gap = "[\\s\\S]*?";
  const isJson = /^[[{]/.test(shown);
  const lines = isJson ? [shown.replace(/\s+/g, "")] : shown.split("\n");
  const pattern = lines.map((line) =>
    line
      .trim()
      .split(/\s*…\s*/)
      .map(patternOf)
      .join(gap),
  );
  if (!isJson) return new RegExp(pattern.join(gap)).test(printed);
  const fields = pattern.join(gap).replaceAll(',"', `,${gap}"`);
  return new RegExp(fields).test(printed.replace(/\s+/g, ""));
}
