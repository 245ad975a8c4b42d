import { z } from "zod";
import { WORKER_ROLES } from "../duty.ts";

/** The body of `POST /worker_role`. */
export const RoleRequest = z.strictObject({
  role: z.enum(WORKER_ROLES),
  /** Of the role that is to be changed; none: whatever it is. */
  role_epoch: z.int().min(0).nullish(),
});
