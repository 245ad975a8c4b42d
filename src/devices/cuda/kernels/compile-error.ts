import { EngineError } from "#base";
import type { KernelText } from "./kernel-text.ts";

/** A message of the compiler: `native/cuda/norm.cu(12): error: identifier "x" is undefined`. */
const message = /^(.+?)\((\d+)\): (?:catastrophic )?error(?: #\S+)?: (.*)$/m;

/**
 * Error of a kernel that does not compile: one line with the place, the compiler's message and the
 * source line. The whole log is the cause.
 */
export function compileError(source: KernelText, log: string): EngineError {
  const cause = new Error(log.trim());
  const [, file, line, text] = message.exec(log) ?? [];
  const why =
    file === undefined ? (log.trim().split("\n")[0] ?? "") : `${file}:${line}: ${text}${quote()}`;
  return new EngineError(
    "DEVICE_UNAVAILABLE",
    `Cannot compile ${source.path}: a source without errors wanted, ${why}`,
    { cause },
  );

  function quote(): string {
    // Headers have the name in their #include.
    const body = file === source.path ? source.text : source.headers[file ?? ""];
    const quoted = body?.split("\n")[Number(line) - 1]?.trim();
    return quoted === undefined ? "" : `, in \`${quoted}\``;
  }
}
