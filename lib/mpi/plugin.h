/// @file
/// The MPI plug-in (`pe-mpi.so`) as programs that do not link MPI see it: a table of functions (support/plugin.h). All
/// calls come from one thread.
#pragma once

#include <cstddef>
#include <cstdint>

/// Functions return 0 on success; else `problem` receives a text.
struct PeMpiTable {
  /// MPI_Init (0.3 s); how many processes MPI sees, and which this one is.
  int (*open)(int* rank, int* count, char* problem, std::size_t size);
  /// Begin an exchange; every rank begins the same ones in the same order. At most 2^31 − 1 elements or bytes.
  int (*start_sum_float)(float* data, std::int64_t count, void** exchange, char* problem, std::size_t size);
  int (*start_sum_double)(double* data, std::int64_t count, void** exchange, char* problem, std::size_t size);
  int (*start_broadcast)(void* data, std::int64_t bytes, void** exchange, char* problem, std::size_t size);
  /// Moves exchanges on; `done` becomes 1, and the exchange is gone, when it has ended.
  int (*test)(void* exchange, int* done, char* problem, std::size_t size);
  /// MPI_Finalize: waits for all.
  void (*close)();
};
