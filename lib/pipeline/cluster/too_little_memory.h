/// @file
/// Tasks that ran out of memory, by their attempts or by Slurm: the next submission asks for more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/cluster/slurm.h"
#include "pipeline/cluster/submission.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

/// Memory in bytes that the newest attempt had when it ran out of memory; 0 when it ended otherwise, or its end is
/// unknown.
std::int64_t last_oom_memory_bytes(const Store& store, const std::string& plan_key);

/// Notes "oom" in the newest attempt of each task whose job ran out of memory according to Slurm alone. The kernel may
/// have killed the whole job, or Slurm calls the job FAILED and only its step OUT_OF_MEMORY. `open` belong to this user
/// and cluster, `rows` are the queue. Jobs that the queue no longer has are looked up in the accounts. @throws IoError
void note_lost_to_memory(const Store& store, const std::vector<Submission>& open, const std::vector<JobRow>& rows,
                         Slurm& slurm);

}  // namespace pe::pipeline
