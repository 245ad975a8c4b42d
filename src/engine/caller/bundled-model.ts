import { fileURLToPath } from "node:url";

/** Directory of the model that comes with the package. */
export const bundledModel = fileURLToPath(new URL("../../../models/pocket", import.meta.url));
