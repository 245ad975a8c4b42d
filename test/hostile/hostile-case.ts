/** One thing that a hostile client does, as plain data. */

/** A JSON body for a route, sent as right HTTP. */
export interface BodyCase {
  readonly kind: "body";
  /** Tells this case from all others, and how to make it again. */
  readonly name: string;
  readonly path: string;
  /** Paths of the fields that hold hostile values. */
  readonly fields: readonly string[];
  readonly body: string;
  /** Sent as it is, as a stream, or one after the other. */
  readonly ways: readonly ("whole" | "stream")[];
}

/** Bytes for a connection, whatever they are. */
export interface WireCase {
  readonly kind: "wire";
  readonly name: string;
  /** Written one after the other. */
  readonly pieces: readonly Buffer[];
  /**
   * Then the sender says that nothing follows and reads to the end; or goes away while it is being
   * answered; or stays and reads nothing until the run is over.
   */
  readonly end: "reads" | "leaves" | "stalls";
}

export type HostileCase = BodyCase | WireCase;

/** How many HTTP requests a case makes. */
export function requestsOf(one: HostileCase): number {
  return one.kind === "body" ? one.ways.length : 1;
}

/** What to type to see it again; `url` is the server's. */
export function reproduction(one: HostileCase, url: string): string {
  if (one.kind === "wire") {
    const bytes = Buffer.concat(one.pieces);
    const { hostname, port } = new URL(url);
    const shown = bytes.length > 3_000 ? "(long)" : bytes.toString("base64");
    return `echo ${shown} | base64 -d | nc ${hostname} ${port}`;
  }
  const body = one.body.length > 3_000 ? "(long)" : one.body.replaceAll("'", "'\\''");
  const address = `${url}${one.path}`;
  return `curl -s ${address} -H 'content-type: application/json' --data-binary '${body}'`;
}
