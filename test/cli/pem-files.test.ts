/** Certificates that command lines name: what is missing, unreadable or contradictory is said. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { scratchFolder } from "../checkpoint/scratch-folder.ts";
import { perigeeInside } from "./perigee.ts";

test.for<[string, readonly string[], string, number]>([
  [
    "a certificate without its key",
    ["worker", "--kv-transfer-tls-cert", "PEM"],
    "--kv-transfer-tls-cert and --kv-transfer-tls-key go together, --kv-transfer-tls-key is missing",
    2,
  ],
  [
    "an authority alone",
    ["worker", "--kv-transfer-tls-ca", "PEM"],
    "Cannot use --kv-transfer-tls-ca: needs --kv-transfer-tls-cert and --kv-transfer-tls-key",
    2,
  ],
  [
    "a file that is not there",
    ["worker", "--kv-transfer-tls-cert", "PEM", "--kv-transfer-tls-key", "MISSING"],
    "missing.pem: wanted a PEM file, it does not exist",
    1,
  ],
  [
    "a network that encrypts nothing",
    [
      ...["worker", "--kv-transfer-tls-cert", "PEM", "--kv-transfer-tls-key", "PEM"],
      ...["--kv-transfer-nixl", "libnixl_capi.so"],
    ],
    "--kv-transfer-tls-cert cannot be combined with --kv-transfer-nixl",
    2,
  ],
  [
    "a file that is no certificate",
    [
      ...["worker", "--kv-transfer", "--kv-transfer-tls-cert", "PEM"],
      ...["--kv-transfer-tls-key", "PEM", "--device", "reference", "--port", "0"],
    ],
    "Cannot encrypt connections between workers: a certificate and its key in PEM wanted",
    2,
  ],
  [
    "a router's key without its certificate",
    ["route", "--worker", "http://127.0.0.1:1", "--tls-key", "PEM"],
    "--tls-cert and --tls-key go together, --tls-cert is missing",
    2,
  ],
])("[TR89] %s ends the start", async ([, words, reason, code]) => {
  const folder = scratchFolder();
  const files: Readonly<Record<string, string>> = {
    PEM: join(folder, "some.pem"),
    MISSING: join(folder, "missing.pem"),
  };
  writeFileSync(files.PEM ?? "", "no certificate\n");
  const ran = await perigeeInside(words.map((word) => files[word] ?? word));
  expect(ran.stderr).toContain(reason);
  expect(ran.code).toBe(code);
});
