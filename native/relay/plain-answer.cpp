#include "plain-answer.h"

#include <cstring>
#include <string_view>

namespace perigee {
namespace {

using View = std::string_view;

constexpr size_t kNone = View::npos;
constexpr size_t kSizeDigitsMax = 7;
constexpr size_t kIdDigitsMax = 9;

bool isDigit(char c) { return c >= '0' && c <= '9'; }

int hexDigit(char c) {
  if (isDigit(c)) return c - '0';
  const char letter = c | 0x20;
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

bool startsWith(View text, View with) { return text.substr(0, with.size()) == with; }

enum class Sized { kWhole, kUnfinished, kOther };

// The chunk at the beginning of `bytes`: `*content`, and where the next one begins.
Sized readChunk(View bytes, View* content, size_t* next) {
  size_t size = 0;
  size_t at = 0;
  for (; at < bytes.size() && at <= kSizeDigitsMax; ++at) {
    const int digit = hexDigit(bytes[at]);
    if (digit < 0) break;
    size = size * 16 + size_t(digit);
  }
  if (at > kSizeDigitsMax || size > kChunkBytesMax) return Sized::kOther;
  if (at == bytes.size()) return Sized::kUnfinished;
  // The last chunk is empty; it and what follows it are not looked at here.
  if (size == 0 || bytes[at] != '\r') return Sized::kOther;
  if (at + 1 == bytes.size()) return Sized::kUnfinished;
  if (bytes[at + 1] != '\n') return Sized::kOther;
  const size_t start = at + 2;
  const size_t end = start + size;
  if (bytes.size() > end && bytes[end] != '\r') return Sized::kOther;
  if (bytes.size() < end + 2) return Sized::kUnfinished;
  if (bytes[end + 1] != '\n') return Sized::kOther;
  *content = bytes.substr(start, size);
  *next = end + 2;
  return Sized::kWhole;
}

// Ids with commas between them; 0: they are none.
uint32_t countIds(View ids) {
  uint32_t count = 0;
  size_t digits = 0;
  for (const char c : ids) {
    if (isDigit(c)) {
      if (++digits > kIdDigitsMax) return 0;
    } else {
      if (c != ',' || digits == 0) return 0;
      ++count;
      digits = 0;
    }
  }
  return digits == 0 ? 0 : count + 1;
}

struct Marker {
  size_t choice = 0;
  View ids;
  uint32_t tokens = 0;
};

// `: t 0 995,317` and `: t 0 -`; others are not plain.
bool readMarker(View line, const Form& form, Marker* marker) {
  if (!startsWith(line, ": t ")) return false;
  line.remove_prefix(4);
  const size_t space = line.find(' ');
  if (space == 0 || space > 2 || !isDigit(line[0])) return false;
  size_t choice = size_t(line[0] - '0');
  if (space == 2) {
    if (choice == 0 || !isDigit(line[1])) return false;
    choice = choice * 10 + size_t(line[1] - '0');
  }
  if (choice >= size_t(form.choices) || (form.live >> choice & 1) == 0) return false;
  marker->choice = choice;
  marker->ids = line.substr(space + 1);
  if (marker->ids == "-") {
    marker->ids = View();
    marker->tokens = 0;
    return true;
  }
  marker->tokens = countIds(marker->ids);
  return marker->tokens > 0;
}

// Events of which each ends with its marker. Takes nothing where it returns false.
bool takeMarked(View content, const Form& form, Taken* taken) {
  const size_t before = taken->content.size();
  std::vector<Marker> markers;
  size_t kept = 0;
  for (size_t at = 0; at < content.size();) {
    const size_t end = content.find('\n', at);
    if (end == kNone) break;
    const View line = content.substr(at, end - at);
    if (!startsWith(line, ": ")) {
      at = end + 1;
      continue;
    }
    Marker marker;
    const bool isEnded = end + 1 < content.size() && content[end + 1] == '\n';
    if (!isEnded || !readMarker(line, form, &marker)) break;
    taken->content.append(content.substr(kept, at - kept));
    markers.push_back(marker);
    at = kept = end + 2;
  }
  if (kept != content.size()) {
    taken->content.resize(before);
    return false;
  }
  for (const Marker& marker : markers) {
    if (marker.tokens == 0) continue;
    std::string& ids = taken->ids[marker.choice];
    if (!ids.empty()) ids += ',';
    ids.append(marker.ids);
    taken->tokens += marker.tokens;
  }
  return true;
}

// Whole lines, in front of the stream's end.
bool takeLines(View content, Taken* taken) {
  if (content.back() != '\n' || content.find("data: [DONE]") != kNone) return false;
  for (size_t at = 0; at < content.size(); at = content.find('\n', at) + 1) {
    if (startsWith(content.substr(at), "data:")) ++taken->tokens;
  }
  taken->content.append(content);
  return true;
}

}  // namespace

Progress takePlain(const char* bytes, size_t size, const Form& form, uint64_t contentBytesMax,
                   Taken* taken) {
  const View all(bytes, size);
  size_t at = 0;
  while (at < size) {
    View content;
    size_t next = 0;
    const Sized sized = readChunk(all.substr(at), &content, &next);
    if (sized != Sized::kWhole) return {at, sized == Sized::kUnfinished};
    if (taken->contentBytes + content.size() > contentBytesMax) return {at, false};
    const bool isTaken =
        form.choices > 0 ? takeMarked(content, form, taken) : takeLines(content, taken);
    if (!isTaken) return {at, false};
    taken->contentBytes += content.size();
    at += next;
  }
  return {at, true};
}

}  // namespace perigee
