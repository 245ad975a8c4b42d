import type { EngineOptions, ModelConnection } from "#engine/protocol";
import { KvEventLog } from "#kvcache";
import { EngineClient } from "./engine-client.ts";
import { linkOver } from "./link.ts";

/** A client of a model that another thread loaded, and its settings: without cache events. */
export function joinedClient({ client, port, settings }: ModelConnection): {
  readonly client: EngineClient;
  readonly settings: EngineOptions;
} {
  const { kvCache, ...others } = settings;
  const events = new KvEventLog(1);
  return {
    client: new EngineClient(
      linkOver(port),
      () => {},
      events,
      () => {},
      client,
    ),
    settings: { ...others, kvCache: { ...kvCache, eventBufferMax: 0 } },
  };
}
