// A library to preload (LD_PRELOAD) that watches MKL's vector functions in a program that links LibTorch.
//
//     PE_VECTOR_MATH_REPORT=FILE   at exit, a line for each function that the program's LibTorch holds: "vmsExp alone"
//                                  where the first call came while the process had one thread, "vmsExp among threads",
//                                  "vmsExp never".
//     PE_VECTOR_MATH_HOLD_MS=N     holds the window of https://github.com/pytorch/pytorch/issues/188792 open for so
//                                  long. It is a nanosecond wide, between two stores of mkl_vml_serv_cpu_detect at
//                                  its first call.
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <atomic>

namespace {

int threads_of_this_process() {
  DIR* folder = ::opendir("/proc/self/task");
  if (folder == nullptr) return 0;
  int count = 0;
  while (const dirent* entry = ::readdir(folder)) count += entry->d_name[0] != '.';
  ::closedir(folder);
  return count;
}

enum Seen : int { kNever, kAlone, kAmongThreads };

/// State of one function; no constructor, since calls may come before this library's are run.
struct MonitorState {
  const char* name;
  std::atomic<void*> next;
  std::atomic<int> seen;

  void* target() {
    void* found = next.load();
    if (found == nullptr) next.store(found = ::dlsym(RTLD_NEXT, name));
    return found;
  }
  void note() {
    if (seen.load() == kNever) seen.store(threads_of_this_process() == 1 ? kAlone : kAmongThreads);
  }
};

}  // namespace

// Every function of one argument that MKL has (Developer Reference, "VM Mathematical Functions").
#define PE_EACH_FUNCTION(DO)                                                                                           \
  DO(Abs)                                                                                                              \
  DO(Sqr) DO(Inv) DO(Sqrt) DO(InvSqrt) DO(Cbrt) DO(InvCbrt) DO(Pow2o3) DO(Pow3o2) DO(Exp) DO(Exp2) DO(Exp10) DO(Expm1) \
      DO(Ln) DO(Log2) DO(Log10) DO(Log1p) DO(Logb) DO(Cos) DO(Sin) DO(Tan) DO(Acos) DO(Asin) DO(Atan) DO(Cospi)        \
          DO(Sinpi) DO(Tanpi) DO(Acospi) DO(Asinpi) DO(Atanpi) DO(Cosd) DO(Sind) DO(Tand) DO(Cosh) DO(Sinh) DO(Tanh)   \
              DO(Acosh) DO(Asinh) DO(Atanh) DO(Erf) DO(Erfc) DO(CdfNorm) DO(ErfInv) DO(ErfcInv) DO(CdfNormInv)         \
                  DO(LGamma) DO(TGamma) DO(ExpInt1) DO(Floor) DO(Ceil) DO(Trunc) DO(Round) DO(NearbyInt) DO(Rint)      \
                      DO(Frac)

#define PE_WATCH(TYPE, NAME)                                                    \
  static MonitorState watched_##NAME{#NAME, {}, {}};                            \
  extern "C" void NAME(int count, const TYPE* from, TYPE* to, long long mode) { \
    watched_##NAME.note();                                                      \
    using Function = void (*)(int, const TYPE*, TYPE*, long long);              \
    reinterpret_cast<Function>(watched_##NAME.target())(count, from, to, mode); \
  }
#define PE_WATCH_BOTH(NAME) PE_WATCH(float, vms##NAME) PE_WATCH(double, vmd##NAME)
PE_EACH_FUNCTION(PE_WATCH_BOTH)

/// Detects the CPU's features. The real one stores the result of a detection, looks that up in a table, and stores the
/// entry; another thread's first call may read the first of the two. Ours gives the same to the same callers, more
/// slowly.
extern "C" int mkl_vml_serv_cpu_detect() {
  using Function = int (*)();
  static std::atomic<void*> real{}, detection{};
  static std::atomic<int> state{0};  // 0: not called; 1: the first call is under way; 2: done
  if (real.load() == nullptr) {
    detection.store(::dlsym(RTLD_NEXT, "mkl_serv_vml_cpu_detect"));
    real.store(::dlsym(RTLD_NEXT, "mkl_vml_serv_cpu_detect"));
  }
  static const char* const hold = ::getenv("PE_VECTOR_MATH_HOLD_MS");
  if (hold == nullptr || detection.load() == nullptr || state.load() == 2)
    return reinterpret_cast<Function>(real.load())();
  const int between = reinterpret_cast<Function>(detection.load())();
  int nobody = 0;
  if (!state.compare_exchange_strong(nobody, 1))
    return state.load() == 2 ? reinterpret_cast<Function>(real.load())() : between;
  const long ms = ::atol(hold);
  const timespec pause{ms / 1000, ms % 1000 * 1000000};
  ::nanosleep(&pause, nullptr);
  const int found = reinterpret_cast<Function>(real.load())();
  state.store(2);
  return found;
}

namespace {

struct Report {
  ~Report() {
    const char* path = ::getenv("PE_VECTOR_MATH_REPORT");
    FILE* file = path == nullptr ? nullptr : ::fopen(path, "w");
    if (file == nullptr) return;
    static const char* const kWords[] = {"never", "alone", "among threads"};
    const auto tell = [&](MonitorState& one) {
      if (one.target() != nullptr) ::fprintf(file, "%s %s\n", one.name, kWords[one.seen.load()]);
    };
#define PE_TELL(NAME) tell(watched_vms##NAME), tell(watched_vmd##NAME);
    PE_EACH_FUNCTION(PE_TELL)
    ::fclose(file);
  }
} report;

}  // namespace
