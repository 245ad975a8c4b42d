import { EngineError, systemClock, systemTimer } from "#base";
import type { EngineLink } from "#engine/caller";
import type { FromEngine } from "#engine/protocol";
import { EngineService } from "./service.ts";

/** An engine on the calling thread: its steps and the caller wait for each other. */
export function openInline(onMessage: (message: FromEngine) => void): EngineLink {
  let open = true;
  // What its end tells is heard, too.
  let hears = true;
  const service = new EngineService({
    clock: systemClock,
    timer: systemTimer,
    post: (message) => {
      if (hears) onMessage(message);
    },
  });
  return {
    post: (message) => {
      if (!open) throw new EngineError("ENGINE_DEAD", "Cannot use the engine: it was closed");
      service.receive(message);
    },
    keepAlive: () => {},
    close: async () => {
      if (open) service.receive({ type: "close" });
      open = false;
      await service.closed;
      hears = false;
    },
  };
}
