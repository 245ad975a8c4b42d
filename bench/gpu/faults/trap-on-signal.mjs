// node --import ./trap-on-signal.mjs …: SIGUSR2 breaks the process's GPU context.
import { trap } from "./context.mjs";

process.on("SIGUSR2", trap);
