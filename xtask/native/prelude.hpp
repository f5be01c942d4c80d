// Included before every file of mlx-c. Declares what its sources need and Linux lacks.
#pragma once

#include <sstream>
#include <string>

#include "mlx/types/half_types.h"

// mlx-c's own half.h declares 16-bit floats on ARM only. Elsewhere it omits four functions that mlx-rs calls
// on every platform. This replacement declares them on every platform.
#define MLX_HALF_H
#define HAS_FLOAT16
#define HAS_BFLOAT16
using mlx::core::bfloat16_t;
using mlx::core::float16_t;

// libstdc++ has std::format from GCC 13 on. mlx-c uses only "{}" without options, in messages.
#if !__has_include(<format>)
namespace std {
template <class... Arguments>
string format(const string& pattern, const Arguments&... arguments) {
  ostringstream text;
  size_t from = 0;
  auto put = [&](const auto& argument) {
    size_t position = pattern.find("{}", from);
    text << pattern.substr(from, position - from) << argument;
    from = position + 2;
  };
  (put(arguments), ...);
  text << pattern.substr(from);
  return text.str();
}
} // namespace std
#endif
