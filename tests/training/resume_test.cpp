#include "training/resume.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <set>
#include <thread>

#include "small_run.h"
#include "support/can_mount.h"
#include "support/error.h"
#include "watching.h"

using namespace pe;
using namespace pe::test;
using training::ResumeStore;
using training::TrainConfig;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// Creates the requested file, and writes nothing in it.
void touch(const fs::path& path) { support::write_file_atomically(path, "x", false); }

void flip_a_byte(const fs::path& file) {
  std::string bytes = support::read_file(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x10);
  support::write_file_atomically(file, bytes, false);
}

void train_until(std::int64_t steps, const TrainConfig& config, artifact::Workspace& workspace) {
  stop_after(steps, workspace, [&] { training::train(config, workspace); });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(resume, *boost::unit_test::fixture<NoStop>())

BOOST_AUTO_TEST_CASE(training_goes_on_while_a_checkpoint_is_written_and_the_next_waits_for_it) {
  const TempFolder folder;
  artifact::Workspace workspace = workspace_in(folder.path(), folder / "data");
  ResumeStore store(workspace, {}, support::silent_progress());
  std::promise<void> go;
  std::atomic<int> running{0}, most{0};
  const auto write = [&](const fs::path& path) {
    most = std::max(most.load(), ++running);
    touch(path);
    --running;
  };
  store.save(1, {}, [&, gate = go.get_future().share()](const fs::path& path) {
    gate.wait();
    write(path);
  });
  store.check();  // neither waits nor complains
  BOOST_TEST(!fs::exists(workspace.work / "checkpoints/step-1.h5"));
  std::atomic<bool> second{false};
  std::thread next([&] {
    store.save(2, {}, write);
    second = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  BOOST_TEST(!second);
  go.set_value();
  next.join();
  store.wait();
  BOOST_TEST(most == 1);
  BOOST_TEST(names_in(workspace.work / "checkpoints") == (std::vector<std::string>{"step-1.h5", "step-2.h5"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_the_writer_threw_reaches_the_training_once_and_names_what_is_there) {
  const TempFolder folder;
  artifact::Workspace workspace = workspace_in(folder.path(), folder / "data");
  ResumeStore store(workspace, {}, support::silent_progress());
  store.save(7, {}, touch);
  store.save(9, {}, [](const fs::path&) { throw support::IoError("'x.h5': no room"); });
  BOOST_CHECK_EXCEPTION(store.wait(), support::IoError, [](const auto& error) {
    return error.exit_code() == 74 &&
           says(error, {"no room", "the checkpoint of step 9", "the one of step 7 is unchanged", "continues from it"});
  });
  store.wait();
  store.check();
}

BOOST_AUTO_TEST_CASE(a_failed_write_names_no_checkpoint_of_another_run) {
  const TempFolder folder;
  artifact::Workspace workspace = workspace_in(folder.path(), folder / "data");
  support::make_folders(workspace.work / "checkpoints");
  touch(workspace.work / "checkpoints/step-900.h5");
  ResumeStore store(workspace, {}, support::silent_progress());
  store.save(9, {}, [](const fs::path&) { throw support::IoError("'x.h5': no room"); });
  BOOST_CHECK_EXCEPTION(store.wait(), support::IoError,
                        [](const auto& error) { return says(error, {"the checkpoint of step 9, the first one"}); });
}

BOOST_AUTO_TEST_CASE(the_newest_the_pinned_and_the_best_stay) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  TrainConfig config = small_config();  // 20 steps, validation every 5
  config.checkpoint.every = 0;
  config.checkpoint.keep = 2;
  config.checkpoint.pin_every = 6;
  config.checkpoint.best = true;
  config.train.optimizer.peak_lr = 0.3;  // the loss does not just fall
  artifact::Workspace workspace = workspace_in(folder.path(), data);
  training::train(config, workspace);
  const artifact::Tables metrics = artifact::read_metrics(folder / "metrics.h5");
  const auto losses = metrics.at("validation").reals("loss");
  const auto steps = metrics.at("validation").integers("step");
  BOOST_TEST_REQUIRE(losses.size() == 4U);
  const auto best = steps[static_cast<std::size_t>(std::min_element(losses.begin(), losses.end()) - losses.begin())];
  std::set<std::int64_t> expected{6, 12, 18, 19, best};  // pinned, the newest two, the best; 20 itself is the result
  for (const std::int64_t step : expected) {
    BOOST_TEST(fs::exists(workspace.work / "checkpoints" / ("step-" + std::to_string(step) + ".h5")), step);
  }
  BOOST_TEST(names_in(workspace.work / "checkpoints").size() == expected.size());
}

BOOST_AUTO_TEST_CASE(asking_for_more_checkpoints_changes_no_result) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  for (const bool many : {false, true}) {
    TrainConfig config = small_config();
    if (many) config.checkpoint = {.every = 0, .keep = 1, .pin_every = 3, .best = true};
    artifact::Workspace workspace = workspace_in(folder / (many ? "many" : "none"), data);
    training::train(config, workspace);
  }
  BOOST_TEST((support::read_file(folder / "many/model.h5") == support::read_file(folder / "none/model.h5")));
  BOOST_TEST((support::read_file(folder / "many/metrics.h5") == support::read_file(folder / "none/metrics.h5")));
}

// Without a checkpoint, with one that cannot be read, and with one of an earlier attempt.
BOOST_AUTO_TEST_CASE(prefetching_changes_nothing) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace workspace = workspace_in(folder / "run", data);
  training::prefetch_checkpoint(workspace);
  fs::create_directories(workspace.work / "checkpoints/step-99.h5");
  training::prefetch_checkpoint(workspace);
  fs::remove(workspace.work / "checkpoints/step-99.h5");
  train_until(5, small_config(), workspace);
  const std::string before = support::read_file(workspace.work / "checkpoints/step-5.h5");
  artifact::Workspace second = workspace_in(folder / "second", data);
  second.resume = workspace.work;
  training::prefetch_checkpoint(second);
  BOOST_TEST((support::read_file(workspace.work / "checkpoints/step-5.h5") == before));
  training::train(small_config(), second);
  artifact::Workspace whole = workspace_in(folder / "whole", data);
  training::train(small_config(), whole);
  BOOST_TEST((support::read_file(folder / "second/model.h5") == support::read_file(folder / "whole/model.h5")));
}

BOOST_AUTO_TEST_CASE(a_damaged_checkpoint_falls_back_to_one_of_an_earlier_attempt) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace whole = workspace_in(folder / "whole", data);
  training::train(small_config(), whole);
  artifact::Workspace first = workspace_in(folder / "1", data), second = workspace_in(folder / "2", data),
                      third = workspace_in(folder / "3", data);
  train_until(5, small_config(), first);
  second.resume = first.work;
  train_until(4, small_config(), second);
  support::remove_tree(folder / "1");  // a cleaned-up attempt takes nothing along
  BOOST_TEST(fs::exists(second.work / "checkpoints/step-5.h5"));
  flip_a_byte(second.work / "checkpoints/step-9.h5");
  third.resume = second.work;
  Watching watch(-1);
  third.progress = &watch;
  training::train(small_config(), third);
  BOOST_TEST_REQUIRE(watch.warnings.size() == 1U);
  BOOST_TEST(watch.warnings[0].find("step-9.h5") != std::string::npos);
  BOOST_TEST((support::read_file(folder / "3/model.h5") == support::read_file(folder / "whole/model.h5")));
  BOOST_TEST((support::read_file(folder / "3/metrics.h5") == support::read_file(folder / "whole/metrics.h5")));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_on_another_file_system_is_copied) {
  const fs::path memory = "/dev/shm";
  const TempFolder folder;
  const auto device_of = [](const fs::path& path) {
    struct stat about {};
    return ::stat(path.c_str(), &about) == 0 ? about.st_dev : dev_t{};
  };
  if (device_of(folder.path()) == device_of(memory) || ::access(memory.c_str(), W_OK) != 0) {
    BOOST_TEST_MESSAGE("skipped: /dev/shm is no other file system here");
    return;
  }
  const fs::path other = memory / folder.path().filename();
  struct Removed {
    fs::path path;
    ~Removed() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } removed{other};
  const auto data = write_shards(folder / "data");
  artifact::Workspace first = workspace_in(other, data), second = workspace_in(folder / "2", data);
  train_until(5, small_config(), first);
  second.resume = first.work;
  Watching watch(3);
  second.progress = &watch;
  BOOST_CHECK_THROW(training::train(small_config(), second), support::StopRequest);
  support::request_stop(0);
  BOOST_TEST(watch.warnings.empty());
  BOOST_TEST(names_in(second.work / "checkpoints") == (std::vector<std::string>{"step-5.h5", "step-8.h5"}),
             boost::test_tools::per_element());
  artifact::CheckpointReader(second.work / "checkpoints/step-5.h5").verify();
}

// The tensors before the damaged one were read already; none of them may be in the model then.
BOOST_AUTO_TEST_CASE(the_only_checkpoint_is_damaged_and_training_begins_anew) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace whole = workspace_in(folder / "whole", data), again = workspace_in(folder / "again", data);
  training::train(small_config(), whole);
  train_until(8, small_config(), again);
  flip_a_byte(again.work / "checkpoints/step-8.h5");
  Watching watch(-1);
  again.progress = &watch;
  training::train(small_config(), again);
  BOOST_TEST(watch.warnings.size() == 1U);
  BOOST_TEST((support::read_file(folder / "again/model.h5") == support::read_file(folder / "whole/model.h5")));
  BOOST_TEST((support::read_file(folder / "again/metrics.h5") == support::read_file(folder / "whole/metrics.h5")));
}

// Such as one of a later version: nothing of a damaged file can be trusted.
BOOST_AUTO_TEST_CASE(a_damaged_tensor_that_training_does_not_use_is_refused_too) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace whole = workspace_in(folder / "whole", data), again = workspace_in(folder / "again", data);
  training::train(small_config(), whole);
  train_until(8, small_config(), again);
  const fs::path path = again.work / "checkpoints/step-8.h5", larger = again.work / "larger.h5";
  const std::string unused(4000, 'u');
  {
    const artifact::CheckpointReader reader(path);
    artifact::CheckpointWriter writer(larger, {}, reader.meta());
    for (const artifact::TensorInfo& info : reader.tensors()) writer.add(info, reader.read(info.name));
    writer.add({"unused/x", artifact::Dtype::kU8, {4000}}, std::as_bytes(std::span(unused)));
    writer.finish(false);
  }
  for (const bool damaged : {true, false}) {
    std::string bytes = support::read_file(larger);
    const std::size_t at = bytes.find(unused);
    BOOST_REQUIRE(at != std::string::npos);
    if (damaged) bytes[at + 2000] = 'v';
    for (const auto& entry : fs::directory_iterator(again.work / "checkpoints")) fs::remove(entry);
    support::write_file_atomically(path, bytes, false);
    Watching watch(-1);
    again.progress = &watch;
    training::train(small_config(), again);
    BOOST_TEST(watch.warnings.size() == (damaged ? 1U : 0U));
    if (damaged)
      BOOST_TEST(watch.warnings.at(0).find("step-8.h5': /unused/x: expected CRC-32C") != std::string::npos,
                 watch.warnings.at(0));
    BOOST_TEST((support::read_file(folder / "again/model.h5") == support::read_file(folder / "whole/model.h5")));
    BOOST_TEST((support::read_file(folder / "again/metrics.h5") == support::read_file(folder / "whole/metrics.h5")));
  }
}

// Not counted among the `keep`, or the last good one would go and the damaged one stay.
BOOST_AUTO_TEST_CASE(a_damaged_checkpoint_pushes_no_good_one_out) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  TrainConfig config = small_config();
  config.checkpoint = {.every = 0, .keep = 2};
  artifact::Workspace workspace = workspace_in(folder / "run", data);
  train_until(9, config, workspace);
  flip_a_byte(workspace.work / "checkpoints/step-9.h5");
  config.checkpoint.every = 1e6;
  stop_after(1, workspace,
             [&] { training::train(config, workspace); });  // one step on from 8, which is 9 again, written again
  for (const char* name : {"step-8.h5", "step-9.h5"}) {
    artifact::CheckpointReader(workspace.work / "checkpoints" / name).verify();
  }
}

BOOST_AUTO_TEST_CASE(a_full_disk_leaves_the_last_good_checkpoint_and_one_error,
                     *boost::unit_test::precondition(CanMount())) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace whole = workspace_in(folder / "whole", data);
  training::train(small_config(), whole);

  // Room for one checkpoint and a half.
  artifact::Workspace sized = workspace_in(folder / "sized", data);
  train_until(3, small_config(), sized);
  const auto bytes = fs::file_size(sized.work / "checkpoints/step-3.h5");
  artifact::Workspace workspace = workspace_in(folder / "run", data);
  const std::string room = "size=" + std::to_string(bytes * 3 / 2 / 4096 * 4096 + 16384);
  BOOST_REQUIRE(::mount("tmpfs", workspace.work.c_str(), "tmpfs", 0, room.c_str()) == 0);
  TrainConfig config = small_config();
  config.checkpoint.every = 0;
  // One error, and no other output of a library.
  const support::Descriptor kept(::dup(2));
  const support::Descriptor printed(::open((folder / "printed").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  ::dup2(printed.get(), 2);
  struct Restore {
    int fd;
    ~Restore() { ::dup2(fd, 2); }
  } restore{kept.get()};
  BOOST_CHECK_EXCEPTION(training::train(config, workspace), support::IoError, [](const auto& error) {
    return says(error, {"No space left on device", "the checkpoint of step 2; the one of step 1 is unchanged"});
  });
  BOOST_TEST(support::read_file(folder / "printed") == "");
  const std::vector<std::string> left = names_in(workspace.work / "checkpoints");
  BOOST_TEST(left == std::vector<std::string>{"step-1.h5"}, boost::test_tools::per_element());
  artifact::CheckpointReader(workspace.work / "checkpoints/step-1.h5").verify();

  BOOST_REQUIRE(::mount("tmpfs", workspace.work.c_str(), "tmpfs", MS_REMOUNT, "size=16m") == 0);
  Watching watch(-1);
  workspace.progress = &watch;
  training::train(config, workspace);
  BOOST_TEST(watch.warnings.empty());
  ::umount(workspace.work.c_str());
  BOOST_TEST((support::read_file(folder / "run/metrics.h5") == support::read_file(folder / "whole/metrics.h5")));
  BOOST_TEST((support::read_file(folder / "run/model.h5") == support::read_file(folder / "whole/model.h5")));
}

// Snapshots and tables are written by the training itself, at the very moment at which the writer is at work.
BOOST_AUTO_TEST_CASE(two_threads_write_artifacts_at_once) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  for (const bool busy : {false, true}) {
    TrainConfig config = small_config();
    if (busy) config.checkpoint.every = 0;
    artifact::Workspace workspace = workspace_in(folder / (busy ? "busy" : "calm"), data,
                                                 {{"a", 3}, {"b", 4}, {"c", 5}, {"d", 6}, {"e", 7}, {"f", 20}});
    training::train(config, workspace);
  }
  for (const char* name :
       {"a-model.h5", "b-metrics.h5", "c-model.h5", "d-metrics.h5", "e-model.h5", "f-model.h5", "f-metrics.h5"}) {
    BOOST_TEST((support::read_file(folder / "busy" / name) == support::read_file(folder / "calm" / name)), name);
  }
}

BOOST_AUTO_TEST_SUITE_END()
