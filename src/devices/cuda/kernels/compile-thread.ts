/** One thread that compiles kernels: the compiler blocks its calling thread. */
import { parentPort, workerData } from "node:worker_threads";
import { EngineError, messageOf } from "#base";
import type { KernelText } from "./kernel-text.ts";
import { Nvrtc } from "./nvrtc.ts";

/** Data that the thread is started with. */
export interface CompileThreadData {
  /** The libnvrtc to open. */
  readonly nvrtcPath: string;
}

/** A request to the thread. */
export interface CompileJob {
  readonly index: number;
  readonly source: KernelText;
  readonly options: readonly string[];
}

/** The thread's answer. An error crosses threads as its parts. */
export type CompileAnswer =
  | { readonly index: number; readonly cubin: Uint8Array }
  | { readonly index: number; readonly message: string; readonly log: string };

function answer(nvrtc: Nvrtc | null, { index, source, options }: CompileJob): CompileAnswer {
  if (nvrtc === null)
    return {
      index,
      message: "Cannot open NVRTC: the library that was found before wanted, it cannot be opened",
      log: "",
    };
  try {
    return { index, cubin: nvrtc.compile(source, options) };
  } catch (error) {
    const cause = error instanceof EngineError ? error.cause : error;
    return { index, message: messageOf(error), log: messageOf(cause) };
  }
}

if (parentPort !== null) {
  const port = parentPort;
  // The pool passes `CompileThreadData`.
  const { nvrtcPath } = workerData as CompileThreadData;
  const nvrtc = Nvrtc.openAt(nvrtcPath);
  port.on("message", (job: CompileJob) => port.postMessage(answer(nvrtc, job)));
}
