// An emulated NVRTC: the C++ compiler makes a shared library of a .cu file behind shim.h. Its bytes
// are the machine code that the emulated driver loads.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

namespace {

struct Program {
  std::string source, name, log, code;
  std::vector<std::pair<std::string, std::string>> headers;
};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// The compiler's messages in NVRTC's form: `file(line): error: text`.
std::string inNvrtcsWords(const std::string& log) {
  std::istringstream lines(log);
  std::string words;
  for (std::string line; std::getline(lines, line); words += line + "\n") {
    for (const char* const form :
         {"%255[^:]:%u:%*u: error: %n", "%255[^:]:%u:%*u: fatal error: %n"}) {
      char file[256];
      unsigned at = 0;
      int end = 0;
      std::sscanf(line.c_str(), form, file, &at, &end);
      if (end == 0) continue;
      line = std::string(file) + "(" + std::to_string(at) + "): error: " + line.substr(end);
      break;
    }
  }
  return words;
}

/// The shim's folder comes first, so that its headers with PTX are those that are found.
std::string command(const std::string& folder) {
  // Most time goes to compiling and to the turns of threads: -O2 would gain less than it takes.
  const std::string flags =
      " -std=c++17 -O1 -fPIC -shared -fvisibility=hidden -ffp-contract=fast -fno-strict-aliasing"
      " -fno-omit-frame-pointer -fno-thread-jumps"
      " -Wno-unknown-pragmas -Wno-attributes -include " EMULATOR_FOLDER "/shim.h";
  const std::string paths = " -I" EMULATOR_FOLDER " -I" + folder;
  return std::string(EMULATOR_COMPILER) + flags + paths + " -o " + folder + "/kernels.so " +
         folder + "/kernels.cpp 2>" + folder + "/log";
}

bool compile(Program& program) {
  char name[] = P_tmpdir "/perigee-emulator-XXXXXX";
  const std::string folder = mkdtemp(name);
  for (const auto& [header, text] : program.headers) write(folder + "/" + header, text);
  // In a folder of its own: a header is looked for beside the file that includes it first.
  for (const std::string header : {"float-bits.h", "tensor-core.h", "dynamic-shared.h", "barrier.h",
                                   "tensor-map.h", "hopper.h", "warpgroup-products.h"}) {
    write(folder + "/" + header, "#include \"" EMULATOR_FOLDER "/" + header + "\"\n");
  }
  write(folder + "/kernels.cpp", "#line 1 \"" + program.name + "\"\n" + program.source);
  const bool good = std::system(command(folder).c_str()) == 0;
  program.log = inNvrtcsWords(read(folder + "/log"));
  if (good) {
    const std::string library = read(folder + "/kernels.so");
    const uint64_t bytes = library.size();
    program.code = "EMULATED" + std::string(reinterpret_cast<const char*>(&bytes), 8) + library;
  }
  const std::string remove = "rm -rf " + folder;
  return std::system(remove.c_str()) == 0 && good;
}

}  // namespace

API nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 9, 0; }
API nvrtcGetNumSupportedArchs(int* count) { return *count = 1, 0; }
API nvrtcGetSupportedArchs(int* archs) { return archs[0] = 90, 0; }
API nvrtcCreateProgram(Program** program, const char* source, const char* name, int count,
                       const char** headers, const char** names) {
  *program = new Program{source, name, "", "", {}};
  for (int i = 0; i < count; ++i) (*program)->headers.emplace_back(names[i], headers[i]);
  return 0;
}
API nvrtcDestroyProgram(Program** program) { return delete *program, 0; }
API nvrtcCompileProgram(Program* program, int, const char**) { return compile(*program) ? 0 : 6; }
API nvrtcGetProgramLogSize(Program* program, size_t* bytes) {
  return *bytes = program->log.size() + 1, 0;
}
API nvrtcGetProgramLog(Program* program, char* log) {
  return std::memcpy(log, program->log.c_str(), program->log.size() + 1), 0;
}
API nvrtcGetCUBINSize(Program* program, size_t* bytes) { return *bytes = program->code.size(), 0; }
API nvrtcGetCUBIN(Program* program, char* code) {
  return std::memcpy(code, program->code.data(), program->code.size()), 0;
}
