// What the test programs share: a claim that does not hold ends the program with its line. At once: RocksDB's threads may be at work, and
// must not find what exit() has destroyed.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);     \
      std::_Exit(1);                                                           \
    }                                                                          \
  } while (false)

// The status of `call` is OK.
#define CHECK_OK(call)                                                                                   \
  do {                                                                                                   \
    const auto check_status = (call);                                                                    \
    if (!check_status.ok()) {                                                                            \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, check_status.ToString().c_str()); \
      std::_Exit(1);                                                                                     \
    }                                                                                                    \
  } while (false)

// `length` bytes that differ from place to place and from seed to seed.
inline std::string Content(unsigned seed, size_t from, size_t length) {
  std::string content(length, '\0');
  for (size_t i = 0; i < length; i++) {
    const uint64_t mixed = ((from + i) / 7 + seed * 1000003ull) * 0x9e3779b97f4a7c15ull;
    content[i] = static_cast<char>(mixed >> (8 * ((from + i) % 7)));
  }
  return content;
}
