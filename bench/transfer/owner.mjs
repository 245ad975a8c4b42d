// The process that offers pieces to bench/transfer.mjs.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { openTransferServer, sharedMemory } from "../../dist/transfer/index.js";

const bytes = Number(process.argv[2]);
const { memory } = sharedMemory(bytes);
memory.fill(3);
const nixl = process.argv[3] || undefined;
const certificates = process.argv[4] || undefined;
const servers = { plain: await openTransferServer(nixl === undefined ? {} : { nixl }) };
if (certificates !== undefined) {
  const [cert, key] = ["cert.pem", "key.pem"].map((name) => readFileSync(join(certificates, name)));
  servers.tls = await openTransferServer({ tls: { cert, key, ca: cert } });
}

process.on("message", ({ pieceBytes, by }) => {
  const pieces = bytes / pieceBytes;
  const offer = servers[by].offer({ pieces, pieceBytesMax: pieceBytes, deadlineMs: 60_000 });
  for (let index = 0; index < pieces; index++) {
    offer.ready(index, [memory.subarray(index * pieceBytes, (index + 1) * pieceBytes)]);
  }
  process.send({ offer: offer.id });
});
process.send({ port: servers.plain.address.port, tlsPort: servers.tls?.address.port });
