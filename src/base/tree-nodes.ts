/**
 * Most nodes of a token tree, its root counted: rows of a tree mask have as many bits, and a GPU
 * keeps a bit for each in one word.
 */
export const TREE_NODES_MAX = 64;
