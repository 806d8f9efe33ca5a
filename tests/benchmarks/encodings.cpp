// What each encoding costs, beside `none`: time and peak memory of the attention alone and of a whole training step of
// the size tiny (58.7M parameters, vocabulary 65,536) at 1,024 tokens, and of an evaluation at 4,096.
//
//     encodings [--state FILE] [--device cpu|cuda] [--only NAME,NAME] [--report]
//
// Each encoding runs in a process of its own, which measures `none` too, in turn with it, so that a machine that slows
// down slows both. What was measured is appended to FILE (encodings-benchmark.jsonl); a second run goes on where the first
// stopped. The Markdown table goes to standard output; --report prints it without measuring.
//
// One sequence and a few repetitions: on two CPU cores a step of tiny takes some 3 s, and sixty encodings have to fit into
// twenty minutes. The smallest of the repetitions counts, since everything that disturbs a measurement makes it longer.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "encodings/attend.h"
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

using namespace pe;   // NOLINT
using at::Tensor;
using encodings::Span;
using support::cat;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kShort = 1024, kLong = 4096;

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

model::ModelConfig tiny(const Json& encoding) {
  model::ModelConfig config;   // width 512, 6 layers, 8 heads: the defaults are tiny
  config.vocabulary = 65536;
  config.length = kShort;
  config.encoding.json = encoding;
  return config;
}

/// Options under which an encoding does its work, where the defaults make it another.
Json config_of(const std::string& name) {
  const encodings::EncodingEntry* entry = encodings::find_encoding(name);
  Json config = {{"kind", name}};
  const support::Field* factor = support::find_field(entry->fields, "factor");
  if (factor != nullptr && factor->default_value.is_number() && factor->default_value.get<double>() <= 1) config["factor"] = 4.0;
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

/// What `body` adds to the resident set at its height. Freed buffers go back to the system while this runs.
template <typename Body>
double peak_memory(const Body& body) {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 18);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 18);
  ::malloc_trim(0);
  const double before = resident();
  std::ofstream("/proc/self/clear_refs") << "5";
  body();
  return std::max(0.0, peak_resident() - before);
}

// ---------------------------------------------------------------- what is measured

struct Cost {
  double seconds = 0, bytes = 0;
};

struct Costs {
  Cost forward, backward, forward_long, step, evaluation;   // backward: forward and backward
  std::string route, route_long;
};

class Subject {
 public:
  Subject(const Json& encoding, at::Device device) : encoding_(encoding), device_(device) {}

  void open_attention() {
    const encodings::Shape shape{.width = 512, .layers = 6, .query_heads = 8, .key_value_heads = 8, .head_width = 64,
                                 .train_length = kShort, .device = device_};
    attention_ = encodings::make_encoding(encoding_, shape);
  }

  void attend(std::int64_t length, bool gradients) {
    at::AutoGradMode mode(gradients);
    Span span = Span::whole(1, length);
    span.training = gradients;
    span.pe_len = length;
    span.device = device_;
    const auto options = at::TensorOptions(at::kFloat).device(device_);
    const auto make = [&](at::IntArrayRef sizes) { return at::randn(sizes, options).requires_grad_(gradients); };
    const Tensor q = make({1, 8, length, 64}), k = make({1, 8, length, 64}), v = make({1, 8, length, 64});
    encodings::State state = encodings::begin_pass(*attention_, span);
    encodings::LayerContext context = encodings::layer_context(*attention_, state, 2, make({1, length, 512}));
    const Tensor out = encodings::attend(*attention_, context, {.q = q, .k = k, .v = v, .scale = 0.125});
    if (gradients) out.sum().backward();
  }

  std::string route(std::int64_t length, bool gradients) {
    Span span = Span::whole(1, length);
    span.training = gradients;
    span.pe_len = length;
    span.device = device_;
    encodings::State state = encodings::begin_pass(*attention_, span);
    return encodings::route_name(*attention_, span, at::kFloat, gradients);
  }

  void open_model() {
    model_.emplace(model::LanguageModel::make(tiny(encoding_), 0, 42, device_));
    training::OptimizerSettings settings;
    optimizer_.emplace(*model_, settings, 0);
    ids_ = at::randint(0, 65536, {1, kLong + 1}, at::TensorOptions(at::kLong)).to(device_);
  }

  void train() {
    model_->zero_gradients();
    model::ForwardOptions options;
    options.training = true;
    options.step = steps_;
    const Tensor hidden = model_->forward(ids_.narrow(1, 0, kShort), options);
    const Tensor targets = ids_.narrow(1, 1, kShort).reshape({-1});
    const Tensor loss = model_->loss_sum(hidden.reshape({-1, 512}), targets) * (1.0 / kShort);
    loss.backward();
    if (!std::isfinite(loss.item<double>())) throw std::runtime_error("the loss is not finite");
    optimizer_->step(steps_++, 1e-4);
  }

  void evaluate() {
    at::NoGradGuard no_grad;
    const Tensor hidden = model_->forward(ids_.narrow(1, 0, kLong), {.pe_len = kLong});
    model_->losses(hidden.reshape({-1, 512}), ids_.narrow(1, 1, kLong).reshape({-1}));
  }

 private:
  Json encoding_;
  at::Device device_;
  std::unique_ptr<encodings::PositionalEncoding> attention_;
  std::optional<model::LanguageModel> model_;
  std::optional<training::AdamW> optimizer_;
  Tensor ids_;
  std::int64_t steps_ = 0;
};

/// Both bodies in turn: at least twice, and until `budget` seconds are gone or nine rounds are made.
template <typename A, typename B>
void in_turn(double budget, Cost& none, Cost& other, const A& a, const B& b) {
  const auto timed = [](Cost& cost, const auto& body) {
    const double begin = now();
    body();
    const double seconds = now() - begin;
    if (cost.seconds == 0 || seconds < cost.seconds) cost.seconds = seconds;
  };
  const double begin = now();
  for (int round = 0; round < 9 && (round < 2 || now() - begin < budget); ++round) {
    timed(none, a);
    timed(other, b);
  }
}

Json to_json(const Cost& cost) { return {{"seconds", cost.seconds}, {"bytes", cost.bytes}}; }

/// In a process of its own.
Json measure(const std::string& name, at::Device device) {
  const bool cpu = device.is_cpu();
  Costs none, other;
  Subject plain("none", device), subject(config_of(name), device);
  plain.open_attention();
  subject.open_attention();
  Json result = {{"encoding", name}, {"device", cpu ? "cpu" : "cuda"}};
  result["route"] = subject.route(kShort, true);
  result["route_long"] = [&]() -> std::string {
    try {
      return subject.route(kLong, false);
    } catch (const support::Error&) {
      return "";
    }
  }();
  // Past a bounded table there is no evaluation at 4,096.
  bool reaches = true;
  try {
    subject.attend(kLong, false);
  } catch (const encodings::RangeError&) {
    reaches = false;
  }
  in_turn(0.4, none.forward, other.forward, [&] { plain.attend(kShort, false); }, [&] { subject.attend(kShort, false); });
  in_turn(0.6, none.backward, other.backward, [&] { plain.attend(kShort, true); }, [&] { subject.attend(kShort, true); });
  if (reaches) {
    in_turn(0, none.forward_long, other.forward_long, [&] { plain.attend(kLong, false); }, [&] { subject.attend(kLong, false); });
  }
  if (cpu) {
    none.forward.bytes = peak_memory([&] { plain.attend(kShort, false); });
    other.forward.bytes = peak_memory([&] { subject.attend(kShort, false); });
    none.backward.bytes = peak_memory([&] { plain.attend(kShort, true); });
    other.backward.bytes = peak_memory([&] { subject.attend(kShort, true); });
    if (reaches) {
      none.forward_long.bytes = peak_memory([&] { plain.attend(kLong, false); });
      other.forward_long.bytes = peak_memory([&] { subject.attend(kLong, false); });
    }
  }
  plain.open_model();
  subject.open_model();
  // The first step makes gradients and tables.
  none.step.bytes = peak_memory([&] { plain.train(); });
  other.step.bytes = peak_memory([&] { subject.train(); });
  in_turn(0, none.step, other.step, [&] { plain.train(); }, [&] { subject.train(); });
  none.step.bytes = peak_memory([&] { plain.train(); });
  other.step.bytes = peak_memory([&] { subject.train(); });
  bool model_reaches = reaches;
  try {
    other.evaluation.bytes = peak_memory([&] { subject.evaluate(); });
  } catch (const encodings::RangeError&) {
    model_reaches = false;
  }
  if (model_reaches) {
    none.evaluation.bytes = peak_memory([&] { plain.evaluate(); });
    in_turn(0, none.evaluation, other.evaluation, [&] { plain.evaluate(); }, [&] { subject.evaluate(); });
  }
  const auto add = [&](const char* key, const Cost& a, const Cost& b) {
    result[key] = b.seconds > 0 ? Json({{"none", to_json(a)}, {"encoding", to_json(b)}}) : Json();
  };
  add("forward", none.forward, other.forward);
  add("forward_backward", none.backward, other.backward);
  add("forward_long", none.forward_long, other.forward_long);
  add("step", none.step, other.step);
  add("evaluation", none.evaluation, other.evaluation);
  return result;
}

// ---------------------------------------------------------------- the table

std::string ratio(const Json& result, const char* key, const char* what) {
  if (!result.contains(key) || result[key].is_null()) return "n/a";
  const double a = result[key]["none"][what].get<double>(), b = result[key]["encoding"][what].get<double>();
  if (a <= 0 || b <= 0) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", b / a);
  return text;
}

void print_table(const std::vector<Json>& results, const std::string& device) {
  std::cout << "Times and peak memory over those of `none`, measured in turn with it on " << device
            << "; fwd: forward, f+b: forward and backward, attention of one layer (8 heads of width 64, one sequence); step: a "
               "whole training step of tiny at 1,024 tokens; eval: its evaluation at 4,096. n/a: the encoding ends before.\n\n";
  std::cout << "| encoding | route in training | fwd 1,024 | f+b 1,024 | fwd 4,096 | step | eval 4,096 | memory f+b | memory fwd "
               "4,096 | memory step | memory eval |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Json& r : results) {
    const std::string route = r.value("route", ""), far = r.value("route_long", "");
    std::cout << "| " << r.value("encoding", "") << " | " << route;
    if (!far.empty() && far != route) std::cout << "; eval: " << far;
    if (r.contains("error")) {
      std::cout << " | " << r["error"].get<std::string>() << " |\n";
      continue;
    }
    for (const char* key : {"forward", "forward_backward", "forward_long", "step", "evaluation"}) {
      std::cout << " | " << ratio(r, key, "seconds");
    }
    for (const char* key : {"forward_backward", "forward_long", "step", "evaluation"}) std::cout << " | " << ratio(r, key, "bytes");
    std::cout << " |\n";
  }
  for (const Json& r : results) {
    if (r.value("encoding", "") != "none" || !r.contains("step") || r["step"].is_null()) continue;
    char text[256];
    std::snprintf(text, sizeof text,
                  "\n`none` itself: attention %.1f ms forward, %.1f ms forward and backward; a step %.2f s, %.0f MiB beyond weights "
                  "and moments; an evaluation at 4,096 %.2f s.\n",
                  1e3 * r["forward"]["encoding"]["seconds"].get<double>(),
                  1e3 * r["forward_backward"]["encoding"]["seconds"].get<double>(), r["step"]["encoding"]["seconds"].get<double>(),
                  r["step"]["encoding"]["bytes"].get<double>() / 1048576, r["evaluation"]["encoding"]["seconds"].get<double>());
    std::cout << text;
  }
}

std::vector<Json> read_state(const std::string& path, const std::string& device) {
  std::vector<Json> results;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_object() && json.value("device", "") == device) results.push_back(json);   // a line cut short is measured again
  }
  return results;
}

}  // namespace

int main(int argc, char** argv) {
  std::string state = "encodings-benchmark.jsonl", device_name = "cpu", only, child;
  bool report = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto next = [&]() -> std::string { return i + 1 < argc ? argv[++i] : ""; };
    if (flag == "--state") state = next();
    else if (flag == "--device") device_name = next();
    else if (flag == "--only") only = next();
    else if (flag == "--report") report = true;
    else if (flag == "--measure") child = next();
    else {
      std::cerr << "usage: encodings [--state FILE] [--device cpu|cuda] [--only NAME,NAME] [--report]\n";
      return 2;
    }
  }
  try {
    model::ComputeConfig compute = model::resolve({});
    compute.device = device_name == "cuda" ? model::DeviceKind::kCuda : model::DeviceKind::kCpu;
    compute.threads = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
    if (!child.empty()) {
      model::set_threads(*compute.threads);
      std::cout << measure(child, model::open_device(compute)).dump() << "\n";
      return 0;
    }
    std::vector<std::string> names = {"none"};
    for (const encodings::EncodingEntry& entry : encodings::encodings()) {
      if (entry.name != "none") names.push_back(entry.name);
    }
    if (!only.empty()) names = support::split(only, ',');
    std::vector<Json> results = read_state(state, device_name);
    if (!report) {
      const double begin = now();
      for (const std::string& name : names) {
        const bool known = std::any_of(results.begin(), results.end(), [&](const Json& r) { return r.value("encoding", "") == name; });
        if (known) continue;
        const support::Captured answer = support::capture(
            {support::own_executable().string(), "--measure", name, "--device", device_name});
        Json result = Json::parse(answer.out, nullptr, false);
        if (answer.status.code != 0 || !result.is_object()) {
          result = {{"encoding", name}, {"device", device_name}, {"error", answer.err.substr(0, 300)}};
        } else {
          support::append_file(state, result.dump() + "\n");
        }
        results.push_back(result);
        std::fprintf(stderr, "%6.0f s  %-20s step x%s\n", now() - begin, name.c_str(),
                     result.contains("error") ? "failed" : ratio(result, "step", "seconds").c_str());
      }
    }
    std::sort(results.begin(), results.end(), [](const Json& a, const Json& b) {
      const std::string x = a.value("encoding", ""), y = b.value("encoding", "");
      return (x == "none") != (y == "none") ? x == "none" : x < y;
    });
    print_table(results, device_name == "cpu" ? cat(*compute.threads, " CPU threads") : "a GPU");
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "encodings: " << error.what() << "\n";
    return 1;
  }
}
