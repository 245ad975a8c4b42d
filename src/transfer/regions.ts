/** Memory of this process that libraries of networks register before others read it. */
export interface Region {
  readonly address: number;
  readonly bytes: number;
}

/** Told of regions that come and go; one that goes must not be used once `removed` returns. */
export interface RegionListener {
  added(region: Region): void;
  removed(region: Region): void;
}

const known = new Set<Region>();
const listeners = new Set<RegionListener>();

/** From now on pieces may lie there. The result ends that: to be called before it is released. */
export function addRegion(address: number, bytes: number): () => void {
  const region = { address, bytes };
  known.add(region);
  for (const listener of listeners) listener.added(region);
  return () => {
    if (!known.delete(region)) return;
    for (const listener of listeners) listener.removed(region);
  };
}

/** Tells the listener of all regions that there are, and then of changes. */
export function listenToRegions(listener: RegionListener): () => void {
  listeners.add(listener);
  for (const region of known) listener.added(region);
  return () => {
    listeners.delete(listener);
  };
}
