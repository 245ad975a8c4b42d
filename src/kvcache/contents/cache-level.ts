/** Where contents are: 0 device, 1 host memory, 2 disk. */
export type CacheLevel = 0 | 1 | 2;

/** A value that changed. */
export interface KvEventDiff<Value extends number = number> {
  readonly newValue: Value;
  readonly oldValue: Value;
}
