/** The way to other engines, which is there before the cache that uses it. */
import { type PeerPort, PeerTraffic } from "#engine/exchange";

export interface ExchangeWay {
  readonly port: PeerPort;
  readonly traffic: PeerTraffic;
}

/**
 * Opens the way that the options ask for, while an engine is loaded: closed again if loading fails.
 * Null: blocks stay here.
 */
export async function withWay<Loaded>(
  open: (() => Promise<PeerPort>) | null,
  load: (way: ExchangeWay | null) => Promise<Loaded>,
): Promise<Loaded> {
  if (open === null) return await load(null);
  const port = await open();
  try {
    return await load({ port, traffic: new PeerTraffic(port) });
  } catch (error) {
    await port.close();
    throw error;
  }
}
