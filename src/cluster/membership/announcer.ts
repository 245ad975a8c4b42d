/** A worker's side of membership. */
export interface Announcer {
  /** Tells routers to send nothing new. Settles when they were told, or cannot be. */
  drain(): Promise<void>;
  /** The worker is gone. Settles when that was told, or cannot be. */
  leave(): Promise<void>;
}
