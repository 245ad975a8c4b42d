// Locates the keys and values of a sequence's segments in its cache blocks.
#pragma once

#include <algorithm>

#include "attention-kernels.h"
#include "attention-plan.h"
#include "kv-pool.h"

namespace perigee {

// Positions visible to any row of an item: the sinks, and [begin, end).
struct SeenPositions {
  int sinkEnd;
  int begin, end;

  bool sees(int position) const {
    return position < sinkEnd || (position >= begin && position < end);
  }
  // Whether any position of the group is visible.
  bool groupAt(int first) const {
    return first < sinkEnd || (first + kGroupTokens > begin && first < end);
  }
};

template <typename T>
class BlockReader {
 public:
  BlockReader(const AttentionJob& job, const KvLayer<T>& layer)
      : job_(job),
        layer_(layer),
        group_(layer.layout.headDim, kGroupTokens, layer.tokenScales) {}

  // Size of `gathered`: needed where the block size is no multiple of a group.
  int64_t gatheredElements() const { return kSegmentGroups * group_.elements; }

  // The visible part of a segment. Groups are read in place in the cache, or copied to `gathered`
  // where the block size is no multiple of a group. Blocks without a visible position are not
  // looked up.
  SegmentView<T> view(const AttentionItem& item, int segment, const SeenPositions& seen,
                      T* gathered) const {
    const bool whole = layer_.layout.blockTokens % kGroupTokens == 0;
    SegmentView<T> view;
    view.firstPosition = segment * kSegmentTokens;
    view.keyStride = whole ? layer_.layout.keyStride : group_.keyStride;
    for (int group = 0; group < kSegmentGroups; ++group) {
      const int position = view.firstPosition + group * kGroupTokens;
      // Groups between sinks and window are not read, but their weights of 0 are multiplied by a
      // scale too.
      if (kScaled<T>) view.keyScales[group] = view.valueScales[group] = kUnitScales;
      if (!seen.groupAt(position)) continue;
      if (whole) {
        pointAt(item, position, seen, view, group);
      } else {
        T* const keys = gathered + group * group_.elements;
        gather(item, position, seen, keys, keys + group_.keyElements);
        view.keys[group] = view.later[group] = keys;
        view.values[group] = keys + group_.keyElements;
        if (layer_.tokenScales) pointAtScales(view, group, scalesOf(keys), kGroupTokens);
      }
    }
    return view;
  }

 private:
  // Unit scales (1 in bf16): for tokens without scales of their own, where the checkpoint has one
  // scale per layer, and for groups that are not read.
  static constexpr uint16_t kOne = 0x3f80;
  static constexpr uint16_t kUnitScales[kGroupTokens] = {kOne, kOne, kOne, kOne, kOne, kOne,
                                                         kOne, kOne, kOne, kOne, kOne, kOne,
                                                         kOne, kOne, kOne, kOne};

  // The scales of the values lie `apart` elements after those of the keys.
  static void pointAtScales(SegmentView<T>& view, int group, const uint16_t* keyScales,
                            int apart) {
    view.keyScales[group] = keyScales;
    view.valueScales[group] = keyScales + apart;
  }

  uint16_t* scalesOf(T* keys) const { return reinterpret_cast<uint16_t*>(keys + group_.scalesAt); }

  int blockOf(const AttentionItem& item, int position) const {
    return job_.blockTables[item.sequence * job_.blocksPerTable +
                            position / layer_.layout.blockTokens];
  }

  // Sets pointers to the group at `position` and to the keys one segment later, for prefetching.
  void pointAt(const AttentionItem& item, int position, const SeenPositions& seen,
               SegmentView<T>& view, int group) const {
    const KvBlockLayout<T>& layout = layer_.layout;
    const auto keysAt = [&](int at) {
      return layer_.keys(blockOf(item, at), item.kvHead) +
             layout.keyIndex(0, at % layout.blockTokens);
    };
    view.keys[group] = keysAt(position);
    view.values[group] = layer_.values(blockOf(item, position), item.kvHead) +
                         layout.valueIndex(position % layout.blockTokens, 0);
    if (layer_.tokenScales) {
      const uint16_t* const scales = layer_.keyScales(blockOf(item, position), item.kvHead);
      pointAtScales(view, group, scales + position % layout.blockTokens, layout.blockTokens);
    }
    const int ahead = position + kSegmentTokens;
    view.later[group] = seen.groupAt(ahead) ? keysAt(ahead) : view.keys[group];
  }

  // Copies the visible positions of the group at `first` into the layout of a block of 16 tokens.
  void gather(const AttentionItem& item, int first, const SeenPositions& seen, T* keys,
              T* values) const {
    const KvBlockLayout<T>& layout = layer_.layout;
    const int dims = (layout.headDim + kTogether<T> - 1) / kTogether<T> * kTogether<T>;
    for (int position = first; position < first + kGroupTokens; ++position) {
      if (!seen.sees(position)) continue;
      const int block = blockOf(item, position);
      const int offset = position % layout.blockTokens;
      const int place = position % kGroupTokens;
      const T* const fromKeys = layer_.keys(block, item.kvHead);
      for (int d = 0; d < dims; ++d) {
        keys[group_.keyIndex(d, place)] = fromKeys[layout.keyIndex(d, offset)];
      }
      const T* const fromValues = layer_.values(block, item.kvHead);
      for (int d = 0; d < layout.valueStride; ++d) {
        values[group_.valueIndex(place, d)] = fromValues[layout.valueIndex(offset, d)];
      }
      if (!layer_.tokenScales) continue;
      uint16_t* const scales = scalesOf(keys);
      scales[place] = layer_.keyScales(block, item.kvHead)[offset];
      scales[kGroupTokens + place] = layer_.valueScales(block, item.kvHead)[offset];
    }
  }

  const AttentionJob& job_;
  const KvLayer<T>& layer_;
  const KvBlockLayout<T> group_;
};

}  // namespace perigee
