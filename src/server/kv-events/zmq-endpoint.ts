import { EngineError } from "#base";

const PORT_MAX = 65_535;

/**
 * Checks an address of ZeroMQ. Throws INVALID_ARGUMENT naming `param`. ZeroMQ itself would take
 * port 99999, and listen on another one.
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
 * Whether a publisher listens at an address, or goes there: vLLM's rule, so that its configurations
 * work as they are. A plain host is one to connect to. Replays are listened for at any address.
 */
export function listensAt(endpoint: string): boolean {
  return /\*|::|^ipc:|^inproc:/.test(endpoint);
}
