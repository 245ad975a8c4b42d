import type { Command } from "commander";
import { addServeFlags, type ServeFlags, serveModel } from "../serving.ts";

/** `perigee serve`. */
export function defineServe(command: Command): void {
  command.action((model: string | undefined, flags: ServeFlags) => serveModel(model, flags));
  addServeFlags(command);
}
