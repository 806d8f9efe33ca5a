/// @file
/// The orchestrator for its commands: everything of lib/pipeline that lib/commands may use. The folders, from the
/// bottom up:
///
/// * `file` reads pipeline files, policies and the descriptions of stages.
/// * `expand` turns a pipeline file into a graph of tasks.
/// * `store` keeps results, records and leases.
/// * `plan` says which tasks are done, must run, and why; what they cost.
/// * `run` runs tasks on one machine, and reads runs.
/// * `cluster` submits tasks to Slurm and runs elements of arrays.
/// * `maintenance` lists, verifies, moves and deletes results.
#pragma once

#include "pipeline/file/config_value.h"
#include "pipeline/file/graph.h"
#include "pipeline/file/pipeline_file.h"
#include "pipeline/file/selection.h"
#include "pipeline/file/shipped.h"
#include "pipeline/file/slurm_policy.h"

#include "pipeline/expand/expand.h"

#include "pipeline/store/group_rights.h"
#include "pipeline/store/host.h"
#include "pipeline/store/journal.h"
#include "pipeline/store/lease.h"
#include "pipeline/store/record.h"
#include "pipeline/store/store.h"

#include "pipeline/plan/capacity.h"
#include "pipeline/plan/cost.h"
#include "pipeline/plan/estimate.h"
#include "pipeline/plan/explain.h"
#include "pipeline/plan/externals.h"
#include "pipeline/plan/frozen_graph.h"
#include "pipeline/plan/idle_axes.h"
#include "pipeline/plan/key.h"
#include "pipeline/plan/other_cpus.h"
#include "pipeline/plan/plan.h"
#include "pipeline/plan/up_to_date_cache.h"

#include "pipeline/run/exit_code.h"
#include "pipeline/run/local_runner.h"
#include "pipeline/run/run.h"
#include "pipeline/run/run_folder.h"
#include "pipeline/run/run_status.h"
#include "pipeline/run/start_checks.h"
#include "pipeline/run/timeline.h"
#include "pipeline/run/view.h"

#include "pipeline/cluster/array_layout.h"
#include "pipeline/cluster/array_runner.h"
#include "pipeline/cluster/finalizer.h"
#include "pipeline/cluster/job_states.h"
#include "pipeline/cluster/site.h"
#include "pipeline/cluster/slurm.h"
#include "pipeline/cluster/submission.h"
#include "pipeline/cluster/submit_lease.h"
#include "pipeline/cluster/too_little_memory.h"

#include "pipeline/maintenance/garbage.h"
#include "pipeline/maintenance/health.h"
#include "pipeline/maintenance/inventory.h"
#include "pipeline/maintenance/pin.h"
#include "pipeline/maintenance/results_file.h"
#include "pipeline/maintenance/transfer.h"
#include "pipeline/maintenance/uses.h"
#include "pipeline/maintenance/verify.h"
