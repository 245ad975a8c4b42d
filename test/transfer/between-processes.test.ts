import { test } from "vitest";
import { sharedMemory } from "#transfer";
import { transferContract } from "../contracts/transfer.ts";
import { Authority, NO_OPENSSL } from "../support/certificates.ts";

const secret = "a secret of the fleet";

transferContract("data connections", {
  server: { secret },
  client: { secret, ways: ["tcp"], connections: 3 },
});
transferContract("frames of one connection", { server: {}, client: { ways: ["stream"] } });
transferContract("shared memory", {
  server: { secret },
  client: { secret, ways: ["memory"] },
  memory: (bytes) => sharedMemory(bytes).memory,
});
transferContract("ordinary memory where it could be shared", {
  server: { secret },
  client: { secret, ways: ["memory", "tcp"] },
});

if (NO_OPENSSL === null) {
  using authority = new Authority();
  const { ca } = authority;
  const [owner, reader] = [authority.issue(), authority.issue()];
  transferContract("TLS", {
    server: { secret, tls: owner },
    client: { secret, tls: { ca }, ways: ["tcp", "stream"] },
  });
  transferContract("TLS that asks readers for their certificate", {
    server: { secret, tls: { ...owner, ca } },
    client: { secret, tls: { ...reader, ca }, ways: ["stream"] },
  });
} else test.skip(`TLS (${NO_OPENSSL})`);
