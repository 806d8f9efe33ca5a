#include "pipeline/store/past_task.h"

#include <bit>
#include <type_traits>
#include <utility>

#include "pipeline/store/packing.h"
#include "support/hash.h"
#include "support/json_fields.h"

namespace pe::pipeline {

using support::field_or;
using support::text_in;

namespace {

std::string cbor_of(const Json& document, const char* part) {
  const auto found = document.is_object() ? document.find(part) : document.end();
  return found == document.end() ? std::string() : support::canonical_cbor(*found);
}

/// The texts and numbers of a row, in its order.
template <typename Task, typename TextFunction, typename NumberFunction>
void each_field(Task& task, const TextFunction& on_text, const NumberFunction& on_number) {
  for (auto* text : {&task.stage, &task.id, &task.ended, &task.run, &task.pipeline, &task.build, &task.config,
                     &task.externals, &task.inputs, &task.device, &task.encoding})
    on_text(*text);
  on_number(task.version);
  on_number(task.gpus);
  on_number(task.bytes);
  for (auto* number : {&task.wall_s, &task.expected_s, &task.parameters, &task.flops, &task.tokens}) on_number(*number);
}

}  // namespace

PastTask make_past_task(const ResultKey& key, const std::string& stage, const std::string& id, const std::string& ended,
                        const Json& preimage) {
  struct Texts {
    std::string stage, id, ended, build, config, externals, inputs;
  };
  auto texts =
      std::make_shared<const Texts>(Texts{stage, id, ended, text_in(preimage, "build"), cbor_of(preimage, "config"),
                                          cbor_of(preimage, "externals"), cbor_of(preimage, "inputs")});
  PastTask past;
  past.key = key;
  past.stage = texts->stage;
  past.id = texts->id;
  past.ended = texts->ended;
  past.version = field_or(preimage, "version", 0);
  past.build = texts->build;
  past.config = texts->config;
  past.externals = texts->externals;
  past.inputs = texts->inputs;
  past.owner = std::move(texts);
  return past;
}

std::string row_of(const Record& record) {
  const Json& occasion = record.occasion;
  const Json model = field_or(occasion, "model", Json::object());
  const std::string run = text_in(occasion, "run"), pipeline = text_in(occasion, "pipeline"),
                    device = text_in(occasion, "device"), encoding = text_in(model, "encoding");
  PastTask past = make_past_task(record.key, record.stage, record.task, text_in(occasion, "ended"), record.preimage);
  past.run = run;
  past.pipeline = pipeline;
  past.device = device;
  past.encoding = encoding;
  past.wall_s = field_or(occasion, "wall_s", 0.0);
  past.expected_s = field_or(occasion, "expected_s", 0.0);
  if (occasion.is_object() && occasion.contains("gpus") && occasion["gpus"].is_array())
    past.gpus = static_cast<std::int64_t>(occasion["gpus"].size());
  past.parameters = field_or(model, "parameters", 0.0);
  past.flops = field_or(model, "flops", 0.0);
  past.tokens = field_or(occasion, "tokens", 0.0);
  for (const OutputRecord& output : record.outputs) past.bytes += output.bytes;
  Packer packer;
  packer.text(PackedResult(to_result(record)).bytes());
  packer.number(record.preimage.is_object());
  each_field(
      past, [&](std::string_view text) { packer.text(text); },
      [&](auto number) {
        if constexpr (std::is_floating_point_v<decltype(number)>)
          packer.number(std::bit_cast<std::uint64_t>(number));
        else
          packer.number(static_cast<std::uint64_t>(number));
      });
  return packer.take("");
}

PackedResult result_in(std::string_view row) {
  Unpacker unpacker(row, "");
  return PackedResult::of_bytes(unpacker.text()).value_or(PackedResult());
}

std::optional<PastTask> past_task_in(const ResultKey& key, std::string_view row) {
  Unpacker unpacker(row, "");
  unpacker.text();
  if (unpacker.number() == 0) return std::nullopt;
  PastTask past;
  past.key = key;
  each_field(
      past, [&](std::string_view& text) { text = unpacker.text(); },
      [&](auto& number) {
        using Number = std::remove_reference_t<decltype(number)>;
        if constexpr (std::is_floating_point_v<Number>)
          number = std::bit_cast<double>(unpacker.number());
        else
          number = static_cast<Number>(unpacker.number());
      });
  return unpacker.good() ? std::optional(std::move(past)) : std::nullopt;
}

}  // namespace pe::pipeline
