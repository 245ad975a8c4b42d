import type { Timer } from "#base";
import type { EngineOptions } from "#engine/protocol";
import {
  exposeMemory,
  openAsker,
  openQuestionServer,
  openTransferClient,
  openTransferServer,
  type PlacedMemory,
  placedMemory,
  sharedRegion,
  type TransferTls,
} from "#transfer";
import type { PeerPort } from "./peer-port.ts";

type Listening = Pick<
  NonNullable<EngineOptions["kvTransfer"]>,
  "host" | "port" | "nixl" | "secrets" | "tls"
>;

/**
 * Opens this engine's connection to others. Rejects with INVALID_ARGUMENT for an address that other
 * machines reach without a secret, for a NIXL or a certificate that cannot be used, and where the
 * address cannot be.
 */
export async function openPeerPort(
  { host, port, nixl, secrets, tls: given }: Listening,
  timer: Timer,
): Promise<PeerPort> {
  const [secret = "", ...formerSecrets] = secrets;
  const tls = tlsOf(given);
  const own = { ...(secret !== "" && { secret }), ...(nixl !== null && { nixl }), ...tls };
  const data = await openTransferServer({ host, ...own, formerSecrets });
  let forgotten: (description: string) => void = () => {};
  const onForgotten = (description: string) => forgotten(description);
  const client = openTransferClient({ ...own, onForgotten });
  const placed: PlacedMemory[] = [];
  const asker = openAsker({ secret, ...tls, timer });
  let answer: Parameters<PeerPort["onAsk"]>[0] = async () => {
    throw new Error("Cannot answer yet: the model is being loaded");
  };
  try {
    const questions = await openQuestionServer({
      ...{ host, port, secrets, timer, ...tls },
      answer: (message, from) => answer(message, from),
    });
    return {
      address: questions.address,
      dataPort: data.address.port,
      offer: (shape) => data.offer(shape),
      share: sharedRegion,
      expose: exposeMemory,
      sent: () => data.stats().pieces,
      place: (description, bytes) => {
        const memory = placedMemory(description, bytes);
        placed.push(memory);
        return memory;
      },
      onForgotten: (how) => {
        forgotten = how;
      },
      read: (read) => client.read(read),
      ask: ({ peer, message, signal, deadlineMs }) =>
        asker.ask(peer, message, { signal, deadlineMs }),
      onAsk: (how) => {
        answer = how;
      },
      close: async () => {
        asker.close();
        await questions.close();
        await client.close();
        await data.close();
        for (const memory of placed) memory.release();
      },
    };
  } catch (error) {
    await client.close();
    await data.close();
    throw error;
  }
}

function tlsOf(given: Listening["tls"]): { readonly tls?: TransferTls } {
  if (given === null) return {};
  const { cert, key, ca } = given;
  return { tls: { cert, key, ...(ca !== null && { ca }) } };
}
