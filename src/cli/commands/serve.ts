import type { Command } from "commander";
import { addRagServeFlags, openRagBeside } from "../rag-serving.ts";
import { addServeFlags, type ServeFlags, serveModel } from "../serving.ts";

/** `perigee serve`. */
export function defineServe(command: Command): void {
  command.action((model: string | undefined, flags: ServeFlags) =>
    serveModel(model, flags, { openBeside: (lines) => openRagBeside(flags, lines) }),
  );
  addServeFlags(command);
  addRagServeFlags(command);
}
