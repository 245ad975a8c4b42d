/** Changes of folders that outlast the machine. */
import { open } from "node:fs/promises";

/** Makes names that were added to a folder, or removed from it, durable. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
