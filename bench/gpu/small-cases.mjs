/** Cases that are small and yet meet every kernel of an op: what --small runs, by op. */
export const smallCases = {};
