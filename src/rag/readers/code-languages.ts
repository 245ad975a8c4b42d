/** Grammars of programming languages, each loaded when its first file is read. */
import type { Parser } from "@lezer/common";

/** A language, and the endings of its files. */
export interface CodeLanguage {
  readonly name: string;
  readonly endings: readonly string[];
  readonly parser: () => Promise<Parser>;
}

async function javascript(dialect: string): Promise<Parser> {
  const { parser } = await import("@lezer/javascript");
  return parser.configure({ dialect });
}

/** All languages whose structure is understood; other source code is text. */
export const CODE_LANGUAGES: readonly CodeLanguage[] = [
  {
    name: "javascript",
    endings: [".js", ".mjs", ".cjs", ".jsx"],
    parser: () => javascript("jsx"),
  },
  { name: "typescript", endings: [".ts", ".mts", ".cts"], parser: () => javascript("ts") },
  { name: "typescript", endings: [".tsx"], parser: () => javascript("ts jsx") },
  {
    name: "python",
    endings: [".py", ".pyi"],
    parser: async () => (await import("@lezer/python")).parser,
  },
  {
    name: "cpp",
    endings: [".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".cu", ".cuh"],
    parser: async () => (await import("@lezer/cpp")).parser,
  },
  { name: "rust", endings: [".rs"], parser: async () => (await import("@lezer/rust")).parser },
  { name: "java", endings: [".java"], parser: async () => (await import("@lezer/java")).parser },
  { name: "go", endings: [".go"], parser: async () => (await import("@lezer/go")).parser },
];
