// A macOS clock that mlx-rs calls to seed its default random state.
#include <chrono>
#include <cstdint>

extern "C" std::uint64_t mach_approximate_time() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}
