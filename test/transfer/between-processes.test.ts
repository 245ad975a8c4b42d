import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sharedMemory } from "#transfer";
import { transferContract } from "../contracts/transfer.ts";

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

/** A certificate of 127.0.0.1 that signs itself. */
function certificate(): { cert: string; key: string } {
  const folder = mkdtempSync(join(tmpdir(), "perigee-transfer-"));
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  const asked = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x";
  const names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert];
  spawnSync("openssl", [...asked.split(" "), ...names]);
  const made = { cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8") };
  rmSync(folder, { recursive: true });
  return made;
}

const { cert, key } = certificate();
transferContract("TLS", {
  server: { secret, tls: { cert, key } },
  client: { secret, tls: { ca: cert }, ways: ["tcp", "stream"] },
});
transferContract("TLS that asks readers for their certificate", {
  server: { secret, tls: { cert, key, ca: cert } },
  client: { secret, tls: { cert, key, ca: cert }, ways: ["stream"] },
});
