import { EngineError } from "#base";

/** Certificates of one side, in PEM. */
export interface TransferTls {
  readonly cert?: string | Uint8Array;
  readonly key?: string | Uint8Array;
  readonly ca?: string | Uint8Array;
}

export interface TransferServerOptions {
  /** Loopback unless there is a secret. */
  readonly host?: string;
  /** 0: a free one. */
  readonly port?: number;
  /** What both sides know, such as the content of a file. */
  readonly secret?: string;
  /** Others that readers may know instead, while a fleet's secret is changed. */
  readonly formerSecrets?: readonly string[];
  /** With a certificate and its key all connections are encrypted. */
  readonly tls?: TransferTls;
  /** Connections that may be open at once, those in their handshake among them. */
  readonly connectionsMax?: number;
  /** Of one address. */
  readonly connectionsPerPeerMax?: number;
  readonly handshakeMs?: number;
  /**
   * Readers that have NIXL, too, read pieces in shared memory by it: the path or name of
   * libnixl_capi.so. Its network asks for no secret, see docs/design/transfer.md. Default: it is
   * not used.
   */
  readonly nixl?: string;
  /** A connection without a read ends after this long. */
  readonly idleMs?: number;
  /** A peer that takes no byte for this long, while there are some, is cut off. */
  readonly stallMs?: number;
}

export interface TransferClientOptions {
  readonly secret?: string;
  readonly tls?: TransferTls;
  /** Data connections for each peer. */
  readonly connections?: number;
  /** As of the server: for reads whose targets lie in shared memory, from such servers. */
  readonly nixl?: string;
  readonly connectMs?: number;
  readonly idleMs?: number;
  readonly stallMs?: number;
  /** Called with descriptions of placed memory that no read uses any more. */
  readonly onForgotten?: (description: string) => void;
  /** Ways that may be used; all that work, unless told otherwise. `stream` is always there. */
  readonly ways?: readonly TransferWay[];
}

/**
 * process: same thread · memory: of one machine, shared · nixl: by that library, where both sides
 * have it · tcp: native · stream: JavaScript.
 */
export type TransferWay = "process" | "memory" | "nixl" | "tcp" | "stream";

export const ALL_WAYS: readonly TransferWay[] = ["process", "memory", "nixl", "tcp", "stream"];

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^(::ffff:)?127\.\d+\.\d+\.\d+$/.test(host);
}

/** All that a server accepts: "" where there is none. */
export function secretsOf({ secret = "", formerSecrets = [] }: TransferServerOptions) {
  return [secret, ...formerSecrets];
}

/** A server that others can reach asks for a secret. */
export function checkServerOptions({ host = "127.0.0.1", secret = "" }: TransferServerOptions) {
  if (secret !== "" || isLoopback(host)) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot let others read blocks at ${host}: a secret or a loopback address wanted, there is ` +
      "no secret; give all workers of the fleet the same one",
    { param: "secret" },
  );
}
