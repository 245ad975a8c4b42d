/**
 * TLS of connections between peers: 1.3 alone, since no other program speaks to either side. What a
 * peer lacks is told in words that its operator understands.
 */
import { X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import {
  connect as connectTls,
  createSecureContext,
  createServer as createTlsServer,
  TLSSocket,
  type Server as TlsServer,
} from "node:tls";
import { EngineError, messageOf } from "#base";
import type { PeerAddress } from "./contract.ts";
import type { TransferTls } from "./options.ts";
import { TransferError } from "./transfer-error.ts";

/** The first byte of a connection that begins with TLS. */
const TLS_HANDSHAKE = 0x16;

/** Throws INVALID_ARGUMENT for what is no certificate, no key of it, or no authority's. */
export function checkTls({ cert, key, ca }: TransferTls): void {
  if ((cert === undefined) !== (key === undefined)) {
    const missing = cert === undefined ? "cert" : "key";
    throw unusable("a certificate and its key wanted", `the ${missing} is missing`, missing);
  }
  try {
    createSecureContext(tlsParts({ cert, key }));
  } catch (cause) {
    const found = `they are refused: ${messageOf(cause)}`;
    throw unusable("a certificate and its key in PEM wanted", found, "cert", cause);
  }
  if (ca !== undefined) checkAuthorities(Buffer.from(ca).toString());
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** OpenSSL would leave out what it cannot read, and trust no peer. */
function checkAuthorities(ca: string): void {
  const wanted = "certificates of authorities in PEM wanted";
  const certificates = ca.match(CERTIFICATE) ?? [];
  if (certificates.length === 0) throw unusable(wanted, "there is none", "ca");
  try {
    for (const certificate of certificates) new X509Certificate(certificate);
  } catch (cause) {
    throw unusable(wanted, `one is refused: ${messageOf(cause)}`, "ca", cause);
  }
}

function unusable(wanted: string, found: string, param: string, cause?: unknown): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot encrypt connections between workers: ${wanted}, ${found}`,
    { param: `tls.${param}`, cause },
  );
}

/** What `node:tls` wants of either side. */
function tlsParts(tls: { readonly [name in keyof TransferTls]?: TransferTls[name] | undefined }) {
  const parts = Object.entries(tls).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, Buffer.from(value)] as const],
  );
  return { ...Object.fromEntries(parts), minVersion: "TLSv1.3" as const };
}

/** The listening side: makes connections that came encrypted ones. */
export class Encryption {
  readonly #server: TlsServer;
  /** Connections in their handshake, by the address at the other end. */
  readonly #entering = new Map<string, (socket: TLSSocket) => void>();

  /** With `ca` peers show a certificate that it signed. Throws as `checkTls` does. */
  constructor(tls: TransferTls) {
    checkTls(tls);
    const wanted = tls.ca === undefined ? {} : { requestCert: true, rejectUnauthorized: true };
    this.#server = createTlsServer({ ...tlsParts(tls), ...wanted }, (socket) => {
      socket.on("error", () => {});
      this.#entering.get(placeOf(socket))?.(socket);
    });
    // Its connection is closed, which ends the wait for it.
    this.#server.on("tlsClientError", (_error, socket) => socket.destroy());
  }

  /**
   * Rejects where the connection ends before it is encrypted: the caller bounds the time by ending
   * it. A peer that speaks in clear is sent `plainAnswer`, so that it can say why.
   */
  async enter(socket: Socket, plainAnswer: Uint8Array = Buffer.alloc(0)): Promise<Socket> {
    socket.on("error", () => {});
    const place = placeOf(socket);
    let onClose = () => {};
    const closed = new Promise<never>((_, reject) => {
      onClose = () => reject(new TransferError("closed", "it ended before it was encrypted"));
      socket.once("close", onClose);
    });
    try {
      const first = await Promise.race([firstBytes(socket), closed]);
      if (first[0] !== TLS_HANDSHAKE) {
        socket.end(plainAnswer);
        socket.destroySoon();
        throw new TransferError("refused", "the peer does not encrypt");
      }
      socket.unshift(first);
      const encrypted = new Promise<Socket>((resolve) => this.#entering.set(place, resolve));
      this.#server.emit("connection", socket);
      return await Promise.race([encrypted, closed]);
    } finally {
      this.#entering.delete(place);
      socket.off("close", onClose);
    }
  }
}

function placeOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

function firstBytes(socket: Socket): Promise<Buffer> {
  return new Promise((resolve) => {
    const look = () => {
      const bytes: Buffer | null = socket.read();
      if (bytes === null) return;
      socket.off("readable", look);
      resolve(bytes);
    };
    socket.on("readable", look);
  });
}

/**
 * The connecting side: begins a connection that is encrypted. `encrypted` settles once it is, and
 * the other side has shown its certificate.
 */
export function connectEncrypted({ host, port }: PeerAddress, tls: TransferTls): TLSSocket {
  return connectTls({ host, port, ...tlsParts(tls) });
}

/** Settles for a connection that is encrypted, or is not to be. Rejects with a TransferError. */
export async function encrypted(socket: Socket): Promise<void> {
  if (!(socket instanceof TLSSocket)) return;
  await new Promise<void>((resolve, reject) => {
    const settle = (act: () => void) => {
      socket.off("secureConnect", onSecure).off("error", onError).off("close", onClose);
      act();
    };
    const onSecure = () => settle(resolve);
    const onError = (error: Error) => settle(() => reject(reasonOf(socket, error)));
    const onClose = () => settle(() => reject(reasonOf(socket, null)));
    socket.on("secureConnect", onSecure).on("error", onError).on("close", onClose);
  });
}

const IN_CLEAR = "it does not encrypt: it has no certificate";
const REASONS: Readonly<Record<string, string>> = {
  ECONNRESET: IN_CLEAR,
  EPIPE: IN_CLEAR,
  ERR_SSL_WRONG_VERSION_NUMBER: IN_CLEAR,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: IN_CLEAR,
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: "it wants a certificate that its authority signed",
};

/** What an error of an encrypted connection means; null: it ended without a word. */
export function reasonOf(socket: Socket, error: Error | null): TransferError {
  const code = error !== null && "code" in error ? String(error.code) : "ECONNRESET";
  const known = REASONS[code];
  if (known !== undefined) return new TransferError("refused", known, error);
  const isForeign = socket instanceof TLSSocket && socket.authorizationError != null;
  if (isForeign || code === "ERR_TLS_CERT_ALTNAME_INVALID") {
    const reason = `its certificate is not accepted: ${messageOf(error)}`;
    return new TransferError("refused", reason, error);
  }
  return new TransferError("closed", messageOf(error), error);
}
