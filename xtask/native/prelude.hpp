// Included before every file of mlx-c: what its sources expect of the platform and Linux lacks.
#pragma once

#include <sstream>
#include <string>

#include "mlx/types/half_types.h"

// mlx-c's own half.h knows 16-bit floats on ARM only, and leaves out four functions elsewhere that
// mlx-rs calls everywhere. Standing in for that header brings them back on every platform.
#define MLX_HALF_H
#define HAS_FLOAT16
#define HAS_BFLOAT16
using mlx::core::bfloat16_t;
using mlx::core::float16_t;

// libstdc++ has std::format from GCC 13. mlx-c uses nothing of it but bare "{}" in messages.
#if !__has_include(<format>)
namespace std {
template <class... Arguments>
string format(const string& pattern, const Arguments&... arguments) {
  ostringstream text;
  size_t from = 0;
  auto put = [&](const auto& argument) {
    size_t place = pattern.find("{}", from);
    text << pattern.substr(from, place - from) << argument;
    from = place + 2;
  };
  (put(arguments), ...);
  text << pattern.substr(from);
  return text.str();
}
} // namespace std
#endif
