#include "encoding_docs/score_file.h"

#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "artifact/h5.h"
#include "encodings/attention/frozen.h"
#include "encodings/attention/token_reader.h"
#include "encodings/registry.h"
#include "kernels/explain.h"
#include "support/config.h"
#include "support/error.h"
#include "support/files.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::encoding_docs {
namespace {

namespace h5 = artifact::h5;
using at::Tensor;
using encodings::Parameter;
using encodings::PositionalEncoding;
using encodings::Shape;
using encodings::Span;
using support::ArtifactError;
using support::cat;
using support::ConfigError;
using support::quote;

// Logits and weights are written whole; more than this is a mistake in a shape rather than a comparison.
constexpr std::uint64_t kMostLogits = std::uint64_t{1} << 30;  // elements, 8 GiB

/// "[B, H, T, d_h]"
std::string letters(const std::vector<std::string>& names) { return cat("[", support::join(names, ", "), "]"); }

/// A dataset of reals or integers as float64.
Tensor read_dataset(const h5::Group& group, const std::string& name) {
  const h5::Dataset dataset = group.open_dataset(name);
  std::vector<std::int64_t> sizes;
  for (const std::uint64_t extent : dataset.shape()) sizes.push_back(static_cast<std::int64_t>(extent));
  const auto as = [&](at::ScalarType type) {
    Tensor t = at::empty(sizes, type);
    if (dataset.count() > 0) dataset.read_raw(t.data_ptr());
    return t.to(at::kDouble);
  };
  switch (dataset.type()) {
    case h5::Type::kF64:
      return as(at::kDouble);
    case h5::Type::kF32:
      return as(at::kFloat);
    case h5::Type::kI64:
      return as(at::kLong);
    case h5::Type::kI32:
      return as(at::kInt);
    default:
      throw ArtifactError(cat(dataset.where(), " holds ", h5::type_name(dataset.type()),
                              "; expected float64, float32, int64 or int32"));
  }
}

/// Reads datasets, and binds the letters of their shapes as it goes, so that a mismatch names both sides.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(h5::File::open(path)), root_(file_.root()) {}

  bool has(const std::string& name) const { return root_.has(name); }
  const h5::Group& root() const { return root_; }

  Tensor read(const std::string& name, const std::vector<std::string>& shape) {
    if (!root_.has(name)) {
      throw ArtifactError(cat(root_.where(), ": dataset ", quote(name), " ", letters(shape), " is missing"),
                          support::suggestion(name, root_.names()));
    }
    const Tensor t = read_dataset(root_, name);
    std::vector<std::string> found;
    for (const std::int64_t n : t.sizes()) found.push_back(cat(n));
    bool fits = t.dim() == static_cast<std::int64_t>(shape.size());
    std::string why;
    for (std::size_t i = 0; fits && i < shape.size(); ++i) {
      const auto [at, fresh] = sizes_.emplace(shape[i], Size{t.size(static_cast<std::int64_t>(i)), name});
      if (!fresh && at->second.value != t.size(static_cast<std::int64_t>(i))) {
        fits = false;
        why = cat("; ", shape[i], " is ", at->second.value, " by ", quote(at->second.from));
      }
    }
    if (!fits || t.numel() == 0) {
      throw ArtifactError(cat(root_.where(), ": dataset ", quote(name), " has the shape ", letters(found),
                              "; expected ", letters(shape), why, t.numel() == 0 ? ", none of them 0" : ""));
    }
    return t;
  }

  std::int64_t size(const std::string& letter) const { return sizes_.at(letter).value; }
  void bind(const std::string& letter, std::int64_t value, const std::string& from) {
    sizes_.emplace(letter, Size{value, from});
  }

 private:
  struct Size {
    std::int64_t value;
    std::string from;
  };
  h5::File file_;
  h5::Group root_;
  std::map<std::string, Size> sizes_;
};

/// Parameters that one layer uses, frozen ones last, by the name that files give them: the short one where it is the
/// only one of its kind, else "kind.short".
std::vector<std::pair<std::string, const Parameter*>> parameters_of(const PositionalEncoding& encoding,
                                                                    std::int64_t layer) {
  std::vector<const Parameter*> used;
  for (const std::vector<Parameter>* some : {&encoding.parameters(), &encodings::frozen_of(encoding)}) {
    for (const Parameter& p : *some) {
      if (p.layer < 0 || p.layer == layer) used.push_back(&p);
    }
  }
  std::map<std::string, int> count;
  for (const Parameter* p : used) ++count[p->short_name];
  std::vector<std::pair<std::string, const Parameter*>> out;
  for (const Parameter* p : used) {
    const std::string kind = p->name.substr(0, p->name.find('.'));
    out.emplace_back(count[p->short_name] > 1 ? cat(kind, ".", p->short_name) : p->short_name, p);
  }
  return out;
}

bool runs_on(const Tensor& positions) {
  if (positions.numel() < 2) return true;
  return at::all(
             at::eq(positions.narrow(0, 1, positions.numel() - 1) - positions.narrow(0, 0, positions.numel() - 1), 1))
      .item<bool>();
}

/// Puts the positions of the file into the span.
void read_positions(Reader& reader, const PositionalEncoding& encoding, const std::string& name, Span& span) {
  if (!reader.has("positions")) return;
  const Tensor positions = reader.read("positions", {"T"});
  if (encoding.traits(span).maps_positions) {
    throw ConfigError(cat(reader.root().where(), ": dataset 'positions' is given, and encoding ", quote(name),
                          " sets the positions of the tokens"),
                      {}, "leave one of them out");
  }
  const bool whole = at::all(at::eq(positions, positions.floor())).item<bool>();
  if (whole && runs_on(positions))
    span.first_position = positions[0].to(at::kLong).item<std::int64_t>();
  else
    span.positions = whole ? positions.to(at::kLong) : positions;
}

/// Numbers that an encoding reads off the tokens, [1,T,c] int64; undefined for one that reads none.
Tensor read_numbers(Reader& reader, PositionalEncoding& encoding, const std::string& name) {
  const encodings::ReadsTokens* wish = encodings::reader_of(encoding);
  if (wish == nullptr) return {};
  if (!reader.has("token_positions")) {
    throw ArtifactError(
        cat(reader.root().where(), ": dataset 'token_positions' [T, c] is missing, and encoding ", quote(name),
            " reads numbers off the tokens: ", wish->reads().dump()),
        cat("write ", wish->channels(), wish->channels() == 1 ? " number" : " numbers", " for each token"));
  }
  const Tensor numbers = reader.read("token_positions", {"T", "c"});
  if (reader.size("c") < wish->channels()) {
    throw ArtifactError(cat(reader.root().where(), ": dataset 'token_positions' has ", reader.size("c"),
                            " numbers a token, and encoding ", quote(name), " reads ", wish->channels(), ": ",
                            wish->reads().dump()));
  }
  if (!at::all(at::logical_and(numbers.ge(0), numbers.eq(numbers.floor()))).item<bool>()) {
    throw ArtifactError(
        cat(reader.root().where(), ": dataset 'token_positions' holds numbers that are negative or no whole numbers"));
  }
  return numbers.to(at::kLong).unsqueeze(0);
}

void read_parameters(const Reader& reader, const PositionalEncoding& encoding, std::int64_t layer) {
  if (!reader.has("parameters")) return;
  const h5::Group group = reader.root().open_group("parameters");
  std::vector<std::string> known;
  const auto used = parameters_of(encoding, layer);
  for (const auto& [name, parameter] : used) known.push_back(name);
  for (const std::string& name : group.names()) {
    const auto found = std::find_if(used.begin(), used.end(), [&](const auto& p) { return p.first == name; });
    if (found == used.end()) {
      throw ArtifactError(cat(group.where(), ": this encoding has no parameter ", quote(name)),
                          known.empty() ? "it has no parameters" : support::suggestion(name, known));
    }
    const Tensor given = read_dataset(group, name);
    const Tensor& value = found->second->value;
    if (!given.sizes().equals(value.sizes())) {
      std::vector<std::string> is, should;
      for (const std::int64_t n : given.sizes()) is.push_back(cat(n));
      for (const std::int64_t n : value.sizes()) should.push_back(cat(n));
      throw ArtifactError(cat(group.where(), ": parameter ", quote(name), " has the shape ", letters(is), "; expected ",
                              letters(should)));
    }
    at::NoGradGuard no_grad;
    Tensor handle = value;
    handle.copy_(given);
  }
}

/// float64 stays, all else is written as float32: HDF5 has no bfloat16.
void write_tensor(h5::Group& group, const std::string& name, const Tensor& tensor) {
  const bool wide = tensor.scalar_type() == at::kDouble;
  const Tensor t = tensor.detach().to(wide ? at::kDouble : at::kFloat).contiguous();
  h5::Shape shape;
  for (const std::int64_t n : t.sizes()) shape.push_back(static_cast<std::uint64_t>(n));
  group.write_raw(name, wide ? h5::Type::kF64 : h5::Type::kF32, shape, t.data_ptr());
}

}  // namespace

Json read_encoding(const std::string& text, const std::vector<std::string>& sets) {
  support::VariantValue value{"none"};
  const auto describe = [&](support::FieldVisitor& v) {
    v.variant("encoding", value, encodings::variant_kinds(), "", /*stackable=*/true);
  };
  const support::Schema schema = support::schema_of(describe);
  support::Node layer;
  layer.kind = support::Node::Kind::kMap;
  support::Node given = support::parse_yaml_value(text, "--encoding");
  layer.mark = given.mark;
  if (!sets.empty()) {
    if (given.is_map() && given.find("stack")) {
      throw ConfigError("--set cannot tell the members of a stack apart", {"--set", 0, 0, "", 1},
                        "write options into the stack: {stack: [{kind: yarn, factor: 4}, ssmax]}");
    }
    if (!given.is_map()) {
      support::Node map;
      map.kind = support::Node::Kind::kMap;
      map.mark = given.mark;
      map.members.push_back({"kind", given.mark, given});
      given = std::move(map);
    }
    const support::Node* kind = given.find("kind");
    const encodings::EncodingEntry* entry = kind ? encodings::find_encoding(kind->text) : nullptr;
    for (const std::string& set : sets) {
      const auto equals = set.find('=');
      if (equals == std::string::npos || equals == 0) {
        throw ConfigError(cat("expected KEY=VALUE, found ", quote(set)), {"--set", 0, 0, "", 1});
      }
      const std::string key = set.substr(0, equals);
      std::string word = set.substr(equals + 1);
      const support::Field* field = entry ? support::find_field(entry->fields, key) : nullptr;
      using enum support::FieldType;
      const bool list = field && (field->type == kIntegerList || field->type == kRealList || field->type == kTextList);
      if (list && word.rfind('[', 0) != 0) word = cat("[", word, "]");
      support::Node option = support::parse_yaml_value(word, cat("--set ", key));
      std::erase_if(given.members, [&](const support::Node::Member& member) { return member.key == key; });
      given.members.push_back({key, option.mark, std::move(option)});
    }
  }
  layer.members.push_back({"encoding", layer.mark, std::move(given)});
  Json config = support::defaults(schema);
  support::Diagnostics diagnostics;
  support::overlay(schema, layer, config, nullptr, diagnostics);
  diagnostics.throw_if_any();
  return config.at("encoding");
}

namespace {

/// Computes what a score file holds, from reading the tensors to writing them.
class Scoring {
 public:
  explicit Scoring(const ScoreOrder& order) : order_(order), reader_(order.in) {}

  void run() {
    read_tensors();
    make_encoding();
    evaluate_definition();
    evaluate_route();
    write();
  }

 private:
  void read_tensors() {
    q64_ = reader_.read("q", {"B", "H", "T", "d_h"});
    k64_ = reader_.read("k", {"B", "G", "T", "d_h"});
    v64_ = reader_.read("v", {"B", "G", "T", "d_h"});
    const std::int64_t batch = reader_.size("B"), length = reader_.size("T");
    const std::int64_t heads = reader_.size("H") * encodings::heads_per_query(order_.encoding);
    reader_.bind("heads", heads, "the encoding");
    const std::uint64_t logits = static_cast<std::uint64_t>(batch * heads) * static_cast<std::uint64_t>(length) *
                                 static_cast<std::uint64_t>(length);
    if (logits > kMostLogits) {
      throw ArtifactError(cat(order_.in.string(), ": logits [", batch, ", ", heads, ", ", length, ", ", length,
                              "] are more than the ", kMostLogits, " numbers that are written"),
                          "take fewer sequences, heads or tokens");
    }
    const std::int64_t width = read_width();
    if (order_.layer >= order_.layers) {
      throw ConfigError(cat("layer ", order_.layer, " of ", order_.layers, " layers: they count from 0"),
                        {"--layer", 0, 0, "", 1}, cat("add --layers ", order_.layer + 1));
    }
    shape_ = {.width = width,
              .layers = order_.layers,
              .query_heads = heads,
              .key_value_heads = reader_.size("G"),
              .head_width = reader_.size("d_h"),
              .train_length = order_.train_length > 0 ? order_.train_length : length,
              .dtype = order_.dtype == at::kDouble ? at::kDouble : at::kFloat};
    span_ = Span::whole(batch, length);
    span_.pe_len = order_.pe_length;
    // The output of an encoding from an x that is not given must not pass for an answer: NaN shows that x was read.
    if (blind_) x_ = at::full({batch, length, width}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
    x_ = x_.to(order_.dtype);
    q_ = q64_.to(order_.dtype);
    k_ = k64_.to(order_.dtype);
    v_ = v64_.to(order_.dtype);
  }

  /// Width of the model; reads x if the file has it.
  std::int64_t read_width() {
    std::int64_t width = reader_.size("H") * reader_.size("d_h");
    if (reader_.root().has_attribute("d_model")) {
      width = reader_.root().integer("d_model");
      if (width < 1 || width > (1 << 20)) {
        throw ArtifactError(cat(reader_.root().where(), ": attribute d_model is ", width, "; expected 1 to ", 1 << 20));
      }
      reader_.bind("d_m", width, "the attribute d_model");
    }
    blind_ = !reader_.has("x");
    if (blind_) return width;
    x_ = reader_.read("x", {"B", "T", "d_m"});
    return reader_.size("d_m");
  }

  void make_encoding() {
    encoding_ = encodings::make_encoding(order_.encoding, shape_);
    name_ = encodings::encoding_name(order_.encoding);
    read_positions(reader_, *encoding_, name_, span_);
    read_parameters(reader_, *encoding_, order_.layer);
    used_ = parameters_of(*encoding_, order_.layer);
    numbers_ = read_numbers(reader_, *encoding_, name_);
  }

  encodings::State begin_pass() {
    encodings::State state = encodings::begin_pass(*encoding_, span_);
    if (numbers_.defined()) encodings::give_numbers(state, numbers_);
    return state;
  }

  Tensor attend(const encodings::AttendOptions& options) {
    encodings::State state = begin_pass();
    encodings::LayerContext context = encodings::layer_context(*encoding_, state, static_cast<int>(order_.layer), x_);
    const double scale = 1 / std::sqrt(static_cast<double>(shape_.head_width));
    return encodings::attend(*encoding_, context, {.q = q_, .k = k_, .v = v_, .scale = scale}, options);
  }

  /// Logits and weights by the definition, and the embedding that the encoding adds.
  void evaluate_definition() {
    at::NoGradGuard no_grad;
    bool read_x = false;
    try {
      const Tensor defined = attend({.route = encodings::Route::kReference, .matrices = &matrices_});
      const auto has_nan = [](const Tensor& t) { return at::any(at::isnan(t)).item<bool>(); };
      read_x = blind_ && has_nan(defined) && !has_nan(q64_) && !has_nan(k64_) && !has_nan(v64_);
    } catch (const c10::Error& error) {  // a NaN that was made an index
      if (!blind_ || !encoding_->facts().content_dependent || kernels::explain(error)) throw;
      read_x = true;
    }
    if (read_x) {
      throw ArtifactError(cat(reader_.root().where(), ": dataset 'x' [B, T, d_m] is missing, and encoding ",
                              quote(name_), " reads the input of the attention"));
    }
    if (encoding_->traits(span_).adds_to_tokens) {
      encodings::State state = begin_pass();
      const at::ScalarType type = order_.dtype == at::kDouble ? at::kDouble : at::kFloat;
      const Tensor zeros = at::zeros({1, reader_.size("T"), shape_.width}, type);
      embedding_ = encodings::add_to_tokens(*encoding_, zeros, state)[0];
    }
  }

  /// Output and gradients by the route of the order.
  void evaluate_route() {
    if (!order_.gradients) {
      at::NoGradGuard no_grad;
      output_ = attend({.route = order_.route});
      return;
    }
    const Tensor direction = reader_.read("grad_output", {"B", "heads", "T", "d_h"}).to(order_.dtype);
    for (Tensor* t : {&q_, &k_, &v_}) t->requires_grad_(true);
    wanted_ = {{"q", q_}, {"k", k_}, {"v", v_}};
    if (!blind_) {
      x_.requires_grad_(true);
      wanted_.emplace_back("x", x_);
    }
    for (const auto& [file_name, parameter] : used_) {
      if (parameter->value.requires_grad()) wanted_.emplace_back(cat("parameters/", file_name), parameter->value);
    }
    output_ = attend({.route = order_.route});
    std::vector<Tensor> leaves;
    for (const auto& [label, leaf] : wanted_) leaves.push_back(leaf);
    gradients_ = torch::autograd::grad({(output_ * direction).sum()}, leaves, {}, std::nullopt, false,
                                       /*allow_unused=*/true);
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      if (!gradients_[i].defined()) gradients_[i] = at::zeros_like(leaves[i]);
    }
  }

  void write() {
    const std::filesystem::path partial = support::unique_sibling(order_.out);
    try {
      h5::File file = h5::File::create(partial);
      write_results(file.root());
      file.close();
      support::rename_durably(partial, order_.out);
    } catch (...) {
      std::error_code ignored;
      std::filesystem::remove(partial, ignored);
      throw;
    }
  }

  void write_results(h5::Group root) {
    const at::ScalarType dtype = order_.dtype;
    root.set_text("format", "pe-scores/1");
    root.set_text("encoding", order_.encoding.dump());
    root.set_text("dtype", dtype == at::kDouble ? "float64" : dtype == at::kFloat ? "float32" : "bfloat16");
    root.set_text("route", encodings::route_name(*encoding_, span_, dtype, order_.gradients, {.route = order_.route}));
    root.set_integer("layer", order_.layer);
    root.set_integer("train_length", shape_.train_length);
    write_tensor(root, "logits", matrices_.logits);
    write_tensor(root, "weights", matrices_.weights);
    write_tensor(root, "output", output_);
    if (embedding_.defined()) write_tensor(root, "embedding", embedding_);
    if (!used_.empty()) {
      h5::Group group = root.create_group("parameters");
      for (const auto& [file_name, parameter] : used_) write_tensor(group, file_name, parameter->value);
    }
    if (order_.gradients) {
      h5::Group group = root.create_group("gradients");
      if (!used_.empty()) group.create_group("parameters");
      for (std::size_t i = 0; i < wanted_.size(); ++i) write_tensor(group, wanted_[i].first, gradients_[i]);
    }
  }

  const ScoreOrder& order_;
  Reader reader_;
  Tensor q64_, k64_, v64_;  ///< as the file has them
  Tensor q_, k_, v_, x_;    ///< in the precision of the order
  bool blind_ = false;      ///< the file has no x
  Shape shape_;
  Span span_;
  std::string name_;  ///< of the encoding
  std::unique_ptr<PositionalEncoding> encoding_;
  std::vector<std::pair<std::string, const Parameter*>> used_;
  Tensor numbers_;
  encodings::AttentionMatrices matrices_;
  Tensor embedding_, output_;
  std::vector<std::pair<std::string, Tensor>> wanted_;  ///< gradients are taken of these
  std::vector<Tensor> gradients_;
};

}  // namespace

void score_file(const ScoreOrder& order) {
  support::require_replaceable(order.out);
  std::error_code not_there;
  if (std::filesystem::equivalent(order.in, order.out, not_there)) {
    throw ConfigError(cat("--out ", quote(order.out.string()), " is the file of --in, which would be lost"),
                      {"--out", 0, 0, "", 1}, "choose another path");
  }
  Scoring(order).run();
}

}  // namespace pe::encoding_docs
