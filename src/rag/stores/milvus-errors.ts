/** What a Milvus server answers, or does not, as a store's errors with a remedy. */
import { EngineError, isPlainObject, messageOf, shortText } from "#base";

/** What a server says about a call. */
export interface MilvusStatus {
  readonly code?: number;
  readonly reason?: string;
}

const COLLECTION_MISSING = 100;
const PARTITION_MISSING = 200;
const GRPC_UNAVAILABLE = 14;
const REASON_LENGTH = 300;

const QUOTA = "make room or raise its quota, and try again: nothing that was stored is lost";

/** What is to be done about what a server said, by its words; the first that fits. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [
    /UNAUTHENTICATED|auth check|unauthori[sz]ed|invalid (token|api key)/i,
    "check user, password or token",
  ],
  [/PERMISSION|privilege|not permitted/i, "give this user the right to do so"],
  [/quota|memory limit|disk limit|no space|exceed(s|ed) .*limit|maximum/i, QUOTA],
  [/deny|denied|read.?only/i, "allow writes on the server and try again"],
  [/rate.?limit/i, "try again later, or raise its limit of requests"],
  [/DEADLINE|timeout/i, "raise timeoutMs in its address, or try again when it is less busy"],
  [/database.*(not exist|not found)|(not exist|not found).*database/i, "make the database first"],
  [
    /certificate|SSL|TLS|wrong version number/i,
    "set tls and ca in its address as the server has them",
  ],
  [/UNAVAILABLE|ECONN|connect|not ready|closed/i, "start it or check its address, and try again"],
];

/** Whether a server says that a collection or a partition is not there. */
export function isMissing(thrown: unknown): boolean {
  const { code } = statusOf(thrown) ?? {};
  return code === COLLECTION_MISSING || code === PARTITION_MISSING;
}

/** Whether a connection failed, so that the call may not have arrived and can be made again. */
export function isDisconnected(thrown: unknown): boolean {
  return thrown instanceof Error && "code" in thrown && thrown.code === GRPC_UNAVAILABLE;
}

/** STORE_UNAVAILABLE with what the server said; errors of ours are as they are. */
export function milvusError(action: string, location: string, thrown: unknown): EngineError {
  if (thrown instanceof EngineError) return thrown;
  const said = shortText(saidBy(thrown), REASON_LENGTH);
  const remedy = REMEDIES.find(([pattern]) => pattern.test(said))?.[1];
  return new EngineError(
    "STORE_UNAVAILABLE",
    `Cannot ${action}: Milvus at ${location} must answer without an error, it says: ${said}; ` +
      (remedy ?? "see the server's log"),
    { cause: thrown },
  );
}

/** An answer of a call; thrown where it is not a success. */
export class MilvusRefusal extends Error {
  readonly status: MilvusStatus;

  constructor(status: MilvusStatus) {
    super(
      status.reason || `status ${status.code ?? "unknown: the server does not know this call"}`,
    );
    this.status = status;
  }
}

/** The client throws answers as they are in some calls, and as errors in others. */
function statusOf(thrown: unknown): MilvusStatus | null {
  if (thrown instanceof MilvusRefusal) return thrown.status;
  if (!isPlainObject(thrown)) return null;
  const status = isPlainObject(thrown.status) ? thrown.status : thrown;
  return { code: Number(status.code), reason: String(status.reason ?? "") };
}

function saidBy(thrown: unknown): string {
  const status = statusOf(thrown);
  return status === null ? messageOf(thrown) : status.reason || `status ${status.code}`;
}
