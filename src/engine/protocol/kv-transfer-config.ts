import { z } from "zod";

/** Blocks that travel between engines of one model. */
export const KvTransferOptions = z
  .strictObject({
    host: z.string().min(1).default("127.0.0.1").describe("Address that other engines reach."),
    port: z.int().min(0).max(65_535).default(0).describe("Its port; 0: a free one."),
    path: z
      .enum(["auto", "host"])
      .default("auto")
      .describe(
        "How blocks come here: auto, from the device of an engine on this machine to this one's " +
          "where it reaches it; host, always through host memory.",
      ),
    nixl: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .describe(
        "Path or name of libnixl_capi.so: blocks in host memory go by NIXL between engines that " +
          "have it, over a network that asks for no secret; null: not used.",
      ),
    memoryAlone: z
      .boolean()
      .default(false)
      .describe(
        "Hold blocks for other engines in host memory and compute nothing: weights are not read.",
      ),
    secrets: z
      .array(z.string().min(1))
      .default([])
      .describe(
        "Secrets that other engines must know, the first one for connections to them; none: only " +
          "engines of this machine are let in.",
      ),
    tls: z
      .strictObject({
        cert: z
          .string()
          .min(1)
          .describe("This engine's certificate, and those up to its authority."),
        key: z.string().min(1).describe("The key of the certificate."),
        ca: z
          .string()
          .min(1)
          .nullable()
          .default(null)
          .describe(
            "Authorities that signed other engines' certificates, which all must show then; " +
              "null: those that Node.js knows, for engines that are asked alone.",
          ),
      })
      .nullable()
      .default(null)
      .describe("Encrypt what goes to and from other engines, texts in PEM; null: in clear."),
  })
  .refine(({ nixl, tls }) => nixl === null || tls === null, {
    path: ["nixl"],
    error: "must be null with tls: nothing on its network is encrypted",
  });
