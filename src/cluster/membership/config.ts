import { z } from "zod";

/** How a worker joins a fleet. */
export const WorkerOptions = z
  .strictObject({
    redis: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .describe(
        "Redis or Valkey of the fleet, e.g. redis://10.0.0.1:6379, or its sentinels, e.g. " +
          "redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/MASTER; a password belongs into the " +
          "variable PERIGEE_REDIS, which other users of the machine cannot read. none: routers " +
          "are given the worker's address.",
      ),
    workerId: z
      .string()
      .min(1)
      .max(200)
      .nullable()
      .default(null)
      .describe("The worker's name, unique in the fleet; none: its advertised address."),
    advertise: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .describe(
        "Address at which routers reach this worker, e.g. http://10.0.0.7:8000; none: the " +
          "address it listens on, or the machine's name where that is all of them.",
      ),
    leaseMs: z
      .int()
      .min(300)
      .max(600_000)
      .default(5000)
      .describe(
        "A worker that says nothing for this long has left; it speaks three times as often.",
      ),
    role: z
      .enum(["both", "prefill", "decode", "kv"])
      .default("both")
      .describe(
        "What the worker does: prefill computes prompts for others, decode gets requests whose " +
          "prompts those compute, both computes its own prompts; kv computes nothing, reads no " +
          "weights and holds keys and values for others in the memory of --host-cache-bytes.",
      ),
    rolePinned: z
      .boolean()
      .default(false)
      .describe(
        "Keep the role though routers with --role-changes auto give others to workers; an " +
          "operator still may (POST /route/roles).",
      ),
    kvTransfer: z
      .boolean()
      .nullable()
      .default(null)
      .describe(
        "Give keys and values to other workers, and take theirs; none: with role prefill, " +
          "decode or kv.",
      ),
    kvTransferHost: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .describe(
        "Address at which other workers ask for keys and values, which is then open to other " +
          "machines if they know the cluster secret; none: 127.0.0.1.",
      ),
    kvTransferPort: z
      .int()
      .min(0)
      .max(65_535)
      .default(0)
      .describe("Port for the questions of other workers; 0: a free one."),
    kvTransferPath: z
      .enum(["auto", "host"])
      .default("auto")
      .describe(
        "How keys and values come from a worker on this machine: auto, from GPU to GPU where " +
          "one reaches the other; host, through host memory.",
      ),
    kvTransferNixl: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .describe(
        "Path or name of libnixl_capi.so: keys and values in host memory go by NIXL between " +
          "workers that have it, over a network that asks for no secret; none: not used.",
      ),
  })
  .refine(({ role, kvTransfer }) => role !== "kv" || kvTransfer !== false, {
    path: ["kvTransfer"],
    error: "must be on with role kv, which does nothing else",
  })
  .readonly();
/** Options as they are given. */
export type WorkerOptions = z.input<typeof WorkerOptions>;
/** Checked options with their defaults. */
export type WorkerConfig = z.output<typeof WorkerOptions>;
