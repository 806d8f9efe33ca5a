// Cost of each encoding, compared with `none`: time and peak memory of the attention alone and of a whole training step
// of the size tiny (58.7M parameters, vocabulary 65,536) at 1,024 tokens. The same of an evaluation at 4,096.
//
//     encodings [--state FILE] [--device cpu|cuda] [--part attention|model] [--only NAME,NAME] [--sequences N]
//               [--report]
//     encodings --beside BASE --only NAME,NAME [--part step|evaluation] [--rounds N] [--threads N] [--sequences N]
//
// The second form is for narrow goals and busy machines. Each NAME and BASE take turns in one process, N rounds (5) of
// a step and of an evaluation, by processor time and by default on one thread (--threads). The median of the ratios
// counts.
//
// Each measurement runs in a separate process. Its result is appended to FILE (encodings-benchmark.jsonl), and a second
// run continues where the first stopped. First comes the attention of all encodings (some three minutes on two cores),
// then the whole models (some sixteen). `none` is measured again after every eight encodings. Each is compared with the
// mean of the two around it, so that a machine that slows down slows both. The rows of doc/performance-encodings.csv go
// to standard output; --report prints them without measuring.
//
// By default one sequence (--sequences), and one timed step after one that warms up. On two CPU cores a step of tiny
// takes some 3 s, an evaluation at 4,096 tokens some 4, and seventy encodings have to fit into twenty minutes. The
// attention alone is cheap and is measured up to nine times; the smallest counts, since every disturbance makes a
// measurement longer.
//
// On a GPU: eight sequences, in bf16 as trainings are, every measurement up to nine times. Each ends when the GPU has
// done its work, and memory is the peak of LibTorch's allocator above its earlier level.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <thread>

#include "encodings/attention/attend.h"
#include "encodings/attention/token_reader.h"
#include "encodings/registry.h"
#include "model/compute.h"
#include "model/device.h"
#include "model/language_model.h"
#include "support/error.h"
#include "support/files.h"
#include "support/process.h"
#include "support/text.h"
#include "training/optimizer.h"

namespace {

using namespace pe;  // NOLINT
using at::Tensor;
using encodings::Span;
using support::cat;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kShort = 1024, kLong = 4096;

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

model::ModelConfig tiny(const Json& encoding, const std::string& name) {
  model::ModelConfig config;  // width 512, 6 layers, 8 heads: the defaults are tiny
  config.vocabulary = 65536;
  config.length = kShort;
  config.encoding.json = encoding;
  if (name == "rope+canon_abcd") config.canon.set = "ABCD";
  if (name == "rope+gate_headwise") config.gate = model::Gate::kHeadwise;
  if (name == "rope+gate_elementwise") config.gate = model::Gate::kElementwise;
  return config;
}

/// Options of the model rather than encodings, measured with rope.
const std::vector<std::string>& model_options() {
  static const std::vector<std::string> names = {"rope+canon_abcd", "rope+gate_headwise", "rope+gate_elementwise"};
  return names;
}

/// Options under which an encoding does its work, where the defaults make it another.
Json config_of(const std::string& name) {
  if (name.starts_with("rope+")) return "rope";
  const encodings::EncodingEntry* entry = encodings::find_encoding(name);
  Json config = {{"kind", name}};
  const support::Field* factor = support::find_field(entry->fields, "factor");
  if (factor != nullptr && factor->default_value.is_number() && factor->default_value.get<double>() <= 1)
    config["factor"] = 4.0;
  if (entry->family == encodings::Family::kPositionMap) return {{"stack", {config, "rope"}}};
  return config;
}

// ---------------------------------------------------------------- memory

/// The largest resident set since the last reset, bytes.
double peak_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return 1024.0 * std::stod(line.substr(6));
  }
  return 0;
}
double resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return 1024.0 * std::stod(line.substr(6));
  }
  return 0;
}

/// Peak memory of `body`: of tensors on a GPU, on the CPU of the resident set. There freed buffers are returned to the
/// system while this runs. Afterwards large ones are kept, as malloc does by itself in a process that has run for a
/// while.
template <typename Body>
double peak_memory(at::Device device, const Body& body) {
  if (device.is_cuda()) {
    c10::getDeviceAllocator(device.type())->resetPeakStats(device.has_index() ? device.index() : 0);
    const double before = model::memory_in_use(device);
    body();
    return model::memory_in_use(device) - before;
  }
  ::mallopt(M_MMAP_THRESHOLD, 1 << 18);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 18);
  ::malloc_trim(0);
  const double before = resident();
  std::ofstream("/proc/self/clear_refs") << "5";
  body();
  const double most = std::max(0.0, peak_resident() - before);
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  return most;
}

// ---------------------------------------------------------------- measured values

class Subject {
 public:
  Subject(std::string name, at::Device device, at::ScalarType type, std::int64_t sequences)
      : name_(std::move(name)), encoding_(config_of(name_)), device_(device), type_(type), sequences_(sequences) {}

  at::Device device() const { return device_; }

  void open_attention() {
    const encodings::Shape shape{.width = 512,
                                 .layers = 6,
                                 .query_heads = 8,
                                 .key_value_heads = 8,
                                 .head_width = 64,
                                 .train_length = kShort,
                                 .device = device_};
    attention_ = encodings::make_encoding(encoding_, shape);
  }

  /// Draws the inputs of attention once: that takes longer than some attention, and must not count as its memory.
  void draw(std::int64_t length, bool gradients) {
    const auto options = at::TensorOptions(at::kFloat).device(device_);
    const auto make = [&](at::IntArrayRef sizes) {
      return at::randn(sizes, options).to(type_).requires_grad_(gradients);
    };
    const std::int64_t n = sequences_;
    in_ = {make({n, attention_->projected_heads(), length, 64}), make({n, 8, length, 64}), make({n, 8, length, 64}),
           make({n, length, 512})};
  }

  void attend(std::int64_t length, bool gradients) {
    at::AutoGradMode mode(gradients);
    Span span = Span::whole(sequences_, length);
    span.training = gradients;
    span.pe_len = length;
    span.device = device_;
    encodings::State state = encodings::begin_pass(*attention_, span);
    encodings::give_example_numbers(*attention_, state);
    encodings::LayerContext context = encodings::layer_context(*attention_, state, 2, in_.x);
    const Tensor out = encodings::attend(*attention_, context, {.q = in_.q, .k = in_.k, .v = in_.v, .scale = 0.125});
    if (!gradients) return wait_for(out);
    for (Tensor t : {in_.q, in_.k, in_.v, in_.x}) t.mutable_grad() = Tensor();
    out.sum().backward();
    wait_for(out);
  }

  std::string route(std::int64_t length, bool gradients) {
    Span span = Span::whole(sequences_, length);
    span.training = gradients;
    span.pe_len = length;
    span.device = device_;
    encodings::State state = encodings::begin_pass(*attention_, span);
    return encodings::route_name(*attention_, span, type_, gradients);
  }

  void open_model() {
    model_.emplace(model::LanguageModel::make(tiny(encoding_, name_), 0, 42, device_, type_));
    encodings::read_examples(model_->encoding());
    training::OptimizerSettings settings;
    optimizer_.emplace(*model_, settings, 0);
    ids_ = at::randint(0, 65536, {sequences_, kLong + 1}, at::TensorOptions(at::kLong)).to(device_);
  }

  void train() {
    model_->zero_gradients();
    model::ForwardOptions options;
    options.training = true;
    options.step = steps_;
    const Tensor hidden = model_->forward(ids_.narrow(1, 0, kShort), options);
    const Tensor targets = ids_.narrow(1, 1, kShort).reshape({-1});
    const Tensor loss =
        model_->loss_sum(hidden.reshape({-1, 512}), targets) * (1.0 / static_cast<double>(targets.numel()));
    loss.backward();
    if (!std::isfinite(loss.item<double>())) throw std::runtime_error("the loss is not finite");
    optimizer_->step(steps_++, 1e-4);
    wait_for(model_->groups().front().values);
  }

  void evaluate() {
    at::NoGradGuard no_grad;
    const Tensor hidden = model_->forward(ids_.narrow(1, 0, kLong), {.pe_len = kLong});
    wait_for(model_->losses(hidden.reshape({-1, 512}), ids_.narrow(1, 1, kLong).reshape({-1})));
  }

 private:
  /// Waits until a GPU has done all its work so far: a value of the last result is read.
  void wait_for(const Tensor& last) const {
    if (device_.is_cuda() && last.defined()) last.reshape({-1})[0].item<double>();
  }

  struct Inputs {
    Tensor q, k, v, x;
  };
  std::string name_;
  Json encoding_;
  at::Device device_;
  at::ScalarType type_;
  std::int64_t sequences_;
  Inputs in_;
  std::unique_ptr<encodings::PositionalEncoding> attention_;
  std::optional<model::LanguageModel> model_;
  std::optional<training::Optimizer> optimizer_;
  Tensor ids_;
  std::int64_t steps_ = 0;
};

/// The smallest time of at least `rounds`, of up to nine while `budget` seconds last.
template <typename Body>
double seconds_of(int rounds, double budget, const Body& body) {
  double best = 0;
  const double begin = now();
  for (int round = 0; round < 9 && (round < rounds || now() - begin < budget); ++round) {
    const double start = now();
    body();
    const double seconds = now() - start;
    if (best == 0 || seconds < best) best = seconds;
  }
  return best;
}

template <typename Body>
Json cost_of(at::Device device, int rounds, double budget, const Body& body) {
  const double bytes = peak_memory(device, body);  // warms up, too
  return {{"seconds", seconds_of(rounds, budget, body)}, {"bytes", bytes}};
}

/// Measures in a separate process.
Json measure(const std::string& part, Subject subject, const Json& what) {
  Json result = what;
  // A GPU takes milliseconds where a CPU takes seconds.
  const at::Device device = subject.device();
  const double budget = device.is_cuda() ? 1 : 0;
  // Past a bounded table there is no evaluation at 4,096, and encodings that only evaluate models of others do not
  // train.
  const auto unless_refused = [&](const char* key, const auto& measured) {
    try {
      result[key] = measured();
    } catch (const encodings::RangeError&) {
      result[key] = nullptr;
    } catch (const support::ConfigError&) {
      result[key] = nullptr;
    }
  };
  if (part == "attention") {
    subject.open_attention();
    unless_refused("route", [&] { return subject.route(kShort, true); });
    unless_refused("route_long", [&] { return subject.route(kLong, false); });
    subject.draw(kShort, false);
    result["forward"] = cost_of(device, 3, 0.3, [&] { subject.attend(kShort, false); });
    subject.draw(kShort, true);
    unless_refused("forward_backward", [&] { return cost_of(device, 2, 0.5, [&] { subject.attend(kShort, true); }); });
    subject.draw(kLong, false);
    unless_refused("forward_long", [&] { return cost_of(device, 1, 0.3, [&] { subject.attend(kLong, false); }); });
  } else {
    subject.open_model();
    unless_refused("step", [&] { return cost_of(device, 1, budget, [&] { subject.train(); }); });
    unless_refused("evaluation", [&] {
      Json cost;
      const double bytes = peak_memory(device, [&] {
        cost = {{"seconds", seconds_of(1, budget, [&] { subject.evaluate(); })}};
      });
      cost["bytes"] = bytes;
      return cost;
    });
  }
  return result;
}

// ---------------------------------------------------------------- two in alternation

/// Seconds that processors worked for this process.
double worked() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_worked(const std::function<void()>& body) {
  const double start = worked();
  body();
  return worked() - start;
}

/// Ratios of rounds in which both take turns; who begins changes from round to round.
std::string ratio_of(int rounds, const std::function<void()>& one, const std::function<void()>& base) {
  one();
  base();
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    const double early = round % 2 == 0 ? seconds_worked(one) : 0, of_base = seconds_worked(base);
    ratios.push_back((round % 2 == 0 ? early : seconds_worked(one)) / of_base);
  }
  std::sort(ratios.begin(), ratios.end());
  char text[96];
  std::snprintf(text, sizeof text, "%.3f (%.3f to %.3f)", ratios[ratios.size() / 2], ratios.front(), ratios.back());
  return text;
}

void print_beside(const std::string& name, const std::string& base, int rounds, at::Device device, at::ScalarType type,
                  std::int64_t sequences, const std::string& only_part) {
  Subject one(name, device, type, sequences), other(base, device, type, sequences);
  one.open_model();
  other.open_model();
  const auto part = [&](const char* what, const std::function<void()>& of_one, const std::function<void()>& of_base) {
    std::string found;
    try {
      found = ratio_of(rounds, of_one, of_base);
    } catch (const support::ConfigError&) {
      found = "n/a";  // it trains nothing, or its table ends before
    } catch (const encodings::RangeError&) {
      found = "n/a";
    }
    std::cout << name << " over " << base << ", " << what << ": " << found << std::endl;
  };
  if (only_part != "evaluation")
    part(
        "step at 1,024 tokens", [&] { one.train(); }, [&] { other.train(); });
  if (only_part != "step")
    part(
        "evaluation at 4,096", [&] { one.evaluate(); }, [&] { other.evaluate(); });
}

// ---------------------------------------------------------------- the table

constexpr const char* kKeys[] = {"forward", "forward_backward", "forward_long", "step", "evaluation"};

/// One encoding compared with `none`.
struct Row {
  std::string name, route, error;
  std::map<std::string, std::string> seconds, bytes;  // ratios, by key; absent: not measured
};

/// In the order in which they were measured: each is between two `none`.
std::vector<Row> rows_of(const std::vector<Json>& lines) {
  std::vector<Row> rows;
  for (std::size_t n = 0; n < lines.size(); ++n) {
    const std::string name = lines[n].value("encoding", ""), part = lines[n].value("part", "");
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
    if (row == rows.end()) row = rows.insert(rows.end(), {.name = name});
    if (lines[n].contains("error")) {
      row->error = lines[n]["error"].get<std::string>();
      continue;
    }
    if (lines[n].contains("route")) {
      row->route = lines[n]["route"].is_string() ? lines[n]["route"].get<std::string>() : "trains none";
      const Json& far = lines[n]["route_long"];
      if (far.is_string() && far != row->route) row->route += "; eval: " + far.get<std::string>();
    }
    std::vector<const Json*> around;
    const auto is_none = [&](const Json& line) {
      return line.value("encoding", "") == "none" && line.value("part", "") == part && !line.contains("error");
    };
    for (std::size_t i = n + 1; i-- > 0;) {
      if (!is_none(lines[i])) continue;
      around.push_back(&lines[i]);
      break;
    }
    for (std::size_t i = n + 1; i < lines.size() && name != "none"; ++i) {
      if (!is_none(lines[i])) continue;
      around.push_back(&lines[i]);
      break;
    }
    for (const char* key : kKeys) {
      if (!lines[n].contains(key)) continue;
      if (lines[n][key].is_null()) {
        row->seconds[key] = row->bytes[key] = "n/a";
        continue;
      }
      for (const char* what : {"seconds", "bytes"}) {
        double base = 0;
        for (const Json* none : around) base += (*none)[key][what].get<double>() / static_cast<double>(around.size());
        char text[32];
        std::snprintf(text, sizeof text, "%.2f", base > 0 ? lines[n][key][what].get<double>() / base : 0.0);
        (std::string(what) == "seconds" ? row->seconds : row->bytes)[key] = text;
      }
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return (a.name == "none") != (b.name == "none") ? a.name == "none" : a.name < b.name;
  });
  return rows;
}

void print_table(const std::vector<Json>& lines, const std::string& device, std::int64_t sequences) {
  std::cerr << "times and peak memory over `none`, on " << device << ", "
            << (sequences == 1 ? std::string("one sequence") : cat(sequences, " sequences"))
            << "; columns as in doc/performance-encodings.csv, whose last column names the run\n";
  for (const Row& row : rows_of(lines)) {
    std::cout << row.name << ",\"" << (row.error.empty() ? row.route : row.error) << '"';
    for (const char* key : kKeys) std::cout << ',' << (row.seconds.count(key) ? row.seconds.at(key) : "");
    for (const char* key : kKeys) std::cout << ',' << (row.bytes.count(key) ? row.bytes.at(key) : "");
    std::cout << ",\n";
  }
  std::cerr << "`none` itself:";
  for (const char* key : kKeys) {
    double seconds = 0, bytes = 0;
    for (const Json& line : lines) {
      if (line.value("encoding", "") != "none" || !line.contains(key) || line[key].is_null()) continue;
      const double found = line[key]["seconds"].get<double>();
      if (seconds == 0 || found < seconds) seconds = found;
      bytes = line[key]["bytes"].get<double>();
    }
    char text[128];
    std::snprintf(text, sizeof text, " %s %.4g s and %.0f MiB;", key, seconds, bytes / 1048576);
    if (seconds > 0) std::cerr << text;
  }
  std::cerr << "\n";
}

std::vector<Json> read_state(const std::string& path, const std::string& device, std::int64_t sequences) {
  std::vector<Json> results;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_object() && json.value("device", "") == device && json.value("sequences", std::int64_t{1}) == sequences)
      results.push_back(json);  // a line cut short is measured again
  }
  return results;
}

}  // namespace

int main(int argc, char** argv) {
  std::string state = "encodings-benchmark.jsonl", device_name = "cpu", only, child, only_part, base;
  int rounds = 5;
  std::int64_t threads = 0, sequences = 0;
  bool report = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto next = [&]() -> std::string { return i + 1 < argc ? argv[++i] : ""; };
    if (flag == "--state")
      state = next();
    else if (flag == "--device")
      device_name = next();
    else if (flag == "--only")
      only = next();
    else if (flag == "--part")
      only_part = next();
    else if (flag == "--report")
      report = true;
    else if (flag == "--measure")
      child = next();
    else if (flag == "--beside")
      base = next();
    else if (flag == "--rounds")
      rounds = std::max(1, std::atoi(next().c_str()));
    else if (flag == "--threads")
      threads = std::atoll(next().c_str());
    else if (flag == "--sequences")
      sequences = std::max(1LL, std::atoll(next().c_str()));
    else {
      std::cerr << "usage: encodings [--state FILE] [--device cpu|cuda] [--part attention|model] [--only NAME,NAME] "
                   "[--sequences N] [--report]\n"
                   "       encodings --beside BASE --only NAME,NAME [--part step|evaluation] [--rounds N] [--threads "
                   "N] [--sequences N]\n";
      return 2;
    }
  }
  try {
    model::ComputeConfig compute;
    compute.device = device_name == "cuda" ? model::DeviceKind::kCuda : model::DeviceKind::kCpu;
    compute = model::resolve(compute);
    const at::ScalarType type = model::compute_type(compute);
    if (sequences == 0) sequences = device_name == "cuda" ? 8 : 1;
    compute.threads = threads > 0     ? threads
                      : !base.empty() ? 1
                                      : static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
    if (!child.empty()) {
      model::set_threads(*compute.threads);
      const Json what = {{"encoding", child}, {"part", only_part}, {"device", device_name}, {"sequences", sequences}};
      std::cout << measure(only_part, Subject(child, model::open_device(compute), type, sequences), what).dump()
                << "\n";
      return 0;
    }
    if (!base.empty()) {
      model::set_threads(*compute.threads);
      for (const std::string& name : support::split(only, ',')) {
        print_beside(name, base, rounds, model::open_device(compute), type, sequences, only_part);
      }
      return 0;
    }
    const at::Device device =
        model::open_device(compute);  // or one line that says why not, before anything is measured
    std::vector<std::string> names;
    for (const encodings::EncodingEntry& entry : encodings::encodings()) {
      if (entry.name != "none") names.push_back(entry.name);
    }
    names.insert(names.end(), model_options().begin(), model_options().end());
    if (!only.empty()) names = support::split(only, ',');
    std::vector<Json> lines = read_state(state, device_name, sequences);
    const double begin = now();
    const auto run = [&](const std::string& name, const std::string& part) {
      const support::CapturedOutput answer =
          support::capture({support::own_executable().string(), "--measure", name, "--part", part, "--device",
                            device_name, "--sequences", std::to_string(sequences)});
      Json line = Json::parse(answer.out, nullptr, false);
      if (answer.status.code != 0 || !line.is_object()) {
        std::string why = answer.err.substr(0, answer.err.find('\n'));
        line = {{"encoding", name},
                {"part", part},
                {"device", device_name},
                {"sequences", sequences},
                {"error", why.empty() ? "failed" : why}};
      } else {
        support::append_file(state, line.dump() + "\n");
      }
      lines.push_back(line);
      std::fprintf(stderr, "%6.0f s  %-9s %-20s %s\n", now() - begin, part.c_str(), name.c_str(),
                   line.contains("error") ? line["error"].get<std::string>().c_str() : "");
    };
    for (const std::string part : {"attention", "model"}) {
      if (report || (!only_part.empty() && part != only_part)) continue;
      int since = 8;
      bool ran = false;
      for (const std::string& name : names) {
        if (part == "attention" && name.starts_with("rope+")) continue;
        const bool known = std::any_of(lines.begin(), lines.end(), [&](const Json& line) {
          return line.value("encoding", "") == name && line.value("part", "") == part;
        });
        if (known) continue;
        if (since++ >= 8) {
          run("none", part);
          since = 1;
        }
        run(name, part);
        ran = true;
      }
      if (ran) run("none", part);  // the last of them stand between two as well
    }
    print_table(lines, model::device_summary(compute, device), sequences);
    return 0;
  } catch (const support::Error& error) {
    std::cerr << "encodings: " << error.what() << "\n";
    return error.exit_code();
  } catch (const std::exception& error) {
    std::cerr << "encodings: " << error.what() << "\n";
    return 1;
  }
}
