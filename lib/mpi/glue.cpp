// The plug-in's table as plugin.h promises it, over any MPI of version 3.
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "mpi/plugin.h"

namespace {

int told(int status, char* problem, std::size_t size) {
  if (status == MPI_SUCCESS || problem == nullptr || size == 0) return status;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  const std::size_t kept = std::min(static_cast<std::size_t>(length), size - 1);
  std::memcpy(problem, text, kept);
  problem[kept] = 0;
  return status;
}

int open(int* rank, int* count, char* problem, std::size_t size) {
  int provided = MPI_THREAD_SINGLE, status = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (status == MPI_SUCCESS && provided < MPI_THREAD_FUNNELED) {  // MPI's constants are in rising order
    std::strncpy(problem, "this MPI cannot be used by a process of several threads (MPI_THREAD_FUNNELED)", size - 1);
    problem[size - 1] = 0;
    MPI_Finalize();
    return MPI_ERR_OTHER;
  }
  if (status == MPI_SUCCESS) status = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (status == MPI_SUCCESS) status = MPI_Comm_rank(MPI_COMM_WORLD, rank);
  if (status == MPI_SUCCESS) status = MPI_Comm_size(MPI_COMM_WORLD, count);
  return told(status, problem, size);
}

template <typename Begin>
int start(const Begin& begin, void** exchange, char* problem, std::size_t size) {
  auto* request = new (std::nothrow) MPI_Request(MPI_REQUEST_NULL);
  if (request == nullptr) return told(MPI_ERR_NO_MEM, problem, size);
  const int status = begin(request);
  if (status == MPI_SUCCESS)
    *exchange = request;
  else
    delete request;
  return told(status, problem, size);
}

int start_sum(void* data, std::int64_t count, MPI_Datatype type, void** exchange, char* problem, std::size_t size) {
  return start(
      [&](MPI_Request* request) {
        return MPI_Iallreduce(MPI_IN_PLACE, data, static_cast<int>(count), type, MPI_SUM, MPI_COMM_WORLD, request);
      },
      exchange, problem, size);
}

int start_sum_float(float* data, std::int64_t count, void** exchange, char* problem, std::size_t size) {
  return start_sum(data, count, MPI_FLOAT, exchange, problem, size);
}

int start_sum_double(double* data, std::int64_t count, void** exchange, char* problem, std::size_t size) {
  return start_sum(data, count, MPI_DOUBLE, exchange, problem, size);
}

int start_broadcast(void* data, std::int64_t bytes, void** exchange, char* problem, std::size_t size) {
  return start(
      [&](MPI_Request* request) {
        return MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD, request);
      },
      exchange, problem, size);
}

int test(void* exchange, int* done, char* problem, std::size_t size) {
  auto* request = static_cast<MPI_Request*>(exchange);
  const int status = MPI_Test(request, done, MPI_STATUS_IGNORE);
  if (status != MPI_SUCCESS || *done != 0) delete request;
  return told(status, problem, size);
}

void close() { MPI_Finalize(); }

constexpr PeMpiTable kTable{
    .open = open,
    .start_sum_float = start_sum_float,
    .start_sum_double = start_sum_double,
    .start_broadcast = start_broadcast,
    .test = test,
    .close = close,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* pe_mpi_layout() { return PE_MPI_LAYOUT; }

extern "C" __attribute__((visibility("default"))) const void* pe_mpi_table() { return &kTable; }
