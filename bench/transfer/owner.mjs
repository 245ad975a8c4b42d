// The process that offers pieces to bench/transfer.mjs.
import { openTransferServer, sharedMemory } from "../../dist/transfer/index.js";

const bytes = Number(process.argv[2]);
const { memory } = sharedMemory(bytes);
memory.fill(3);
const nixl = process.argv[3] || undefined;
const server = await openTransferServer(nixl === undefined ? {} : { nixl });

process.on("message", ({ pieceBytes }) => {
  const pieces = bytes / pieceBytes;
  const offer = server.offer({ pieces, pieceBytesMax: pieceBytes, deadlineMs: 60_000 });
  for (let index = 0; index < pieces; index++) {
    offer.ready(index, [memory.subarray(index * pieceBytes, (index + 1) * pieceBytes)]);
  }
  process.send({ offer: offer.id });
});
process.send({ port: server.address.port });
