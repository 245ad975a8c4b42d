/** `LLM` in a child process that must stay alive, whatever it is called with. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface, type Interface } from "node:readline";

/** A call as `llm-door.mjs` reads it; values are JSON as it is written. */
export interface LlmCall {
  readonly call: "generate" | "stream" | "chatPrompt" | "chat" | "embed";
  readonly prompt?: string;
  readonly messages?: string;
  readonly text?: string;
  /** The name of a value that no JSON can say, for `field`. */
  readonly exotic?: string;
  readonly field?: string;
}

export interface LlmVerdict {
  /** `ok`, an `ErrorCode`, or what was thrown instead of an `EngineError`. */
  readonly code: string;
  readonly texts: readonly (string | null)[] | null;
}

const answerMs = 120_000;

export class LlmProcess {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  /** Names of values that no JSON can say. */
  readonly exotic: readonly string[];

  private constructor(child: ChildProcess, lines: AsyncIterator<string>, exotic: string[]) {
    this.#child = child;
    this.#lines = lines;
    this.exotic = exotic;
  }

  static async start(): Promise<LlmProcess> {
    const child = spawn(process.execPath, ["test/hostile/llm-door.mjs"], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    if (child.stdout === null) throw new Error("The process has no output");
    // Its end is told by its output, not by a write to it.
    child.stdin?.on("error", () => {});
    const reader: Interface = createInterface({ input: child.stdout });
    const lines = reader[Symbol.asyncIterator]();
    const first = JSON.parse(await nextLine(lines));
    return new LlmProcess(child, lines, first.exotic);
  }

  /** What a call ends with. Throws where the process ends or hangs. */
  async call(call: LlmCall): Promise<LlmVerdict> {
    this.#child.stdin?.write(`${JSON.stringify({ id: 0, ...call })}\n`);
    return JSON.parse(await nextLine(this.#lines));
  }

  /** Ends it as its last caller; blocks that it still held, and its exit code. */
  async end(): Promise<{ readonly heldBlocks: number; readonly exitCode: number | null }> {
    const exited = new Promise<number | null>((resolve) => this.#child.once("exit", resolve));
    this.#child.stdin?.end();
    const { heldBlocks } = JSON.parse(await nextLine(this.#lines));
    return { heldBlocks, exitCode: await exited };
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }
}

async function nextLine(lines: AsyncIterator<string>): Promise<string> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${answerMs} ms`)), answerMs);
  });
  try {
    const { done, value } = await Promise.race([lines.next(), late]);
    if (done === true) throw new Error("the process has ended");
    return value;
  } finally {
    clearTimeout(timer);
  }
}
