import { EngineError } from "#base";

const PORT_MAX = 65_535;

/**
 * Checks a ZeroMQ address. Throws INVALID_ARGUMENT naming `param`. ZeroMQ itself would accept port
 * 99999, and listen on another port.
 */
export function checkEndpoint(endpoint: string, param: string): void {
  const port = /^tcp:\/\/[^/\s]+:(\d{1,5}|\*)$/.exec(endpoint)?.[1];
  if (port === "*" || (port !== undefined && Number(port) <= PORT_MAX)) return;
  if (/^(ipc|inproc):\/\/\S+$/.test(endpoint)) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot publish KV events: ${param} must be like tcp://*:5557, ipc://PATH or inproc://NAME, ` +
      `current value is ${endpoint}`,
    { param },
  );
}

/**
 * Whether a publisher listens at an address or connects to it, by vLLM's rule, so that its
 * configurations work unchanged. It connects to a plain host. Replay sockets always listen.
 */
export function listensAt(endpoint: string): boolean {
  return /\*|::|^ipc:|^inproc:/.test(endpoint);
}
