/** A key and its certificate for this machine, made by openssl. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Null where openssl is missing. */
export function certificate(): { readonly key: string; readonly cert: string } | null {
  const folder = mkdtempSync(join(tmpdir(), "perigee-tls-"));
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const made = spawnSync("openssl", [
    ...["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert],
    ...["-days", "2", "-subj", "/CN=localhost", "-addext"],
    "subjectAltName=IP:127.0.0.1,DNS:localhost",
  ]);
  const isMade = made.status === 0;
  const pair = isMade ? { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") } : null;
  rmSync(folder, { recursive: true });
  return pair;
}
