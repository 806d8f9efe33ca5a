// An encoding that is written in a config: a bias of the logits, frequencies of rotated pairs, or both.
#include "encodings/bias/expression.h"
#include "encodings/registry.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

using support::cat;
using support::ConfigError;
using support::quote;

struct FormulaOptions {
  std::string bias;
  std::string frequencies;
  std::vector<std::string> parameters;
  std::optional<std::int64_t> train_length;
  void describe(support::FieldVisitor& v) {
    v.field(
        "bias", bias,
        "Added to each logit. Names: d = i − j, i and j (positions of query and key), h (head, from 0), l (layer, from "
        "0), H (heads), L (training length), pi, e, parameters. With neither formula it is -exp(a[h])*log1p(d).");
    v.field(
        "frequencies", frequencies,
        "Radians a token by which the pair of channels c and c + P rotates: 10000^(-c/P) is rope. Names: c (from 0), P "
        "(pairs), g (key/value head, from 0), l, L, pi, e, parameters.");
    v.field("parameters", parameters,
            "Parameters with their initial values: a = 0 for the model, a[h] = -h one a head, a[l,h] one a layer and "
            "head. Indices: l, h, g, c.");
    v.field("train_length", train_length, "L in the formulas; auto: the training length.",
            {.unit = "tokens", .min = 1, .neutral = Json(nullptr)});
    v.check(!bias.empty() || !frequencies.empty() || parameters.empty(),
            "`parameters` are in no formula: give `bias` or `frequencies`");
  }
};

constexpr const char* kExampleBias = "-exp(a[h])*log1p(d)";
constexpr const char* kExampleParameter = "a[h] = 0";

/// A trained tensor for each layer that has its own, with the indices of its dimensions.
struct TrainedTensor {
  std::string name;
  bool by_layer = false;
  std::vector<std::string> indices;  ///< without l, in the order h, g, c
  std::vector<Tensor> values;        ///< one, or one a layer
};

/// The index that counts along each dimension of a formula's values: bias [1, H, i, j], frequencies [G, P].
using Dimensions = std::map<std::string, std::int64_t>;

class Formula : public PositionalEncoding {
 public:
  Formula(FormulaOptions options, const Shape& shape) : PositionalEncoding(shape), options_(std::move(options)) {
    if (options_.bias.empty() && options_.frequencies.empty()) {
      options_.bias = kExampleBias;
      options_.parameters = {kExampleParameter};
    }
    sizes_ = {{"h", shape.query_heads}, {"g", shape.key_value_heads}, {"c", shape.head_width / 2}};
    for (const std::string& text : options_.parameters) declare(text);
    if (!options_.bias.empty())
      bias_.emplace(options_.bias, names_for({"d", "i", "j", "h", "l", "H", "L"}, {"l", "h"}), "bias");
    if (!options_.frequencies.empty()) {
      if (shape.head_width % 2 != 0) {
        throw ConfigError(
            cat("encoding 'formula' rotates pairs of channels, and the head width ", shape.head_width, " is not even"));
      }
      frequencies_.emplace(options_.frequencies, names_for({"c", "g", "l", "P", "L"}, {"l", "g", "c"}), "frequencies");
    }
    for (const TrainedTensor& parameter : declared_) {
      if (!uses(bias_, parameter.name) && !uses(frequencies_, parameter.name)) {
        throw ConfigError(cat("encoding 'formula': parameter ", quote(parameter.name), " is in no formula"), {},
                          "leave it out, or use it");
      }
    }
    require_finite();
  }

  Facts facts() const override {
    return {.shift_invariant = by_distance() ? ShiftInvariance::kAlways : ShiftInvariance::kNever,
            .rotates = frequencies_.has_value(),
            .learned = !declared_.empty()};
  }

  Traits traits(const Span& span) const override {
    if (!bias_) return {};
    const bool trained =
        std::any_of(declared_.begin(), declared_.end(), [&](const TrainedTensor& p) { return uses(bias_, p.name); });
    return {.bias = by_distance() ? BiasKind::kToeplitz : BiasKind::kPairwise, .bias_needs_grad = trained};
  }

  // S4: the formula at d = 0 .. n − 1, [H,n]
  Tensor table(LayerContext& context, std::int64_t n) override {
    const Tensor d = at::arange(n, at::TensorOptions(at::kDouble).device(shape_.device)).view({1, n});
    const Tensor made = bias_->evaluate(values_of(bias_, {{"d", d}}, {{"h", 0}}, 2, context.layer, nullptr));
    return made.to(shape_.device).expand({shape_.query_heads, n}).to(table_type(shape_.dtype));
  }

  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    if (!bias_ || by_distance()) return PositionalEncoding::row_inputs(context, heads);
    std::vector<Tensor> inputs;
    for (const TrainedTensor* parameter : used_by(bias_)) inputs.push_back(own(*parameter, context.layer));
    return inputs;
  }

  Tensor bias(const Rows& rows) override {
    if (by_distance()) return PositionalEncoding::bias(rows);
    return at_pairs(rows.query_positions, rows.key_positions, rows.context.layer, &rows.inputs)
        .to(table_type(shape_.dtype));
  }

  void transform(LayerContext& context, Heads& heads) override {
    if (!frequencies_) return;
    const std::int64_t queries = context.span.queries, keys = context.span.keys, groups = heads.k.size(1);
    const Tensor positions = context.positions.to(at::kDouble);
    // [B or 1, 1, S, 1] · [G or 1, 1, P]
    const Tensor theta = frequencies_at(context.layer).unsqueeze(1);
    const Tensor angles = positions.view({positions.dim() == 2 ? positions.size(0) : 1, 1, keys, 1}) * theta;
    const auto turn = [&](const Tensor& x, const Tensor& by) {
      const at::ScalarType type = table_type(x.scalar_type());
      const std::int64_t pairs = by.size(-1);
      const Tensor cos = by.cos().to(type), sin = by.sin().to(type), wide = x.to(type);
      const Tensor a = wide.narrow(-1, 0, pairs), b = wide.narrow(-1, pairs, pairs);
      return at::cat({a * cos - b * sin, b * cos + a * sin}, -1).to(x.scalar_type());
    };
    const Tensor of_keys = angles.expand({-1, groups, -1, -1});
    heads.k = turn(heads.k, of_keys);
    heads.q = turn(heads.q, of_keys.narrow(2, keys - queries, queries).repeat_interleave(heads.q.size(1) / groups, 1));
  }

  std::optional<RotatedPairs> rotated_pairs(int layer, const Span& span) const override {
    if (!frequencies_) return std::nullopt;
    at::NoGradGuard no_gradients;
    const Tensor theta = frequencies_at(layer).to(at::kCPU).contiguous();
    const double* first = theta.const_data_ptr<double>();
    RotatedPairs rotated{.first = {}, .second = {}, .theta = {first, first + theta.numel()}};
    for (std::int64_t c = 0; c < theta.size(1); ++c) {
      rotated.first.push_back(c);
      rotated.second.push_back(c + theta.size(1));
    }
    return rotated;
  }

 private:
  static bool uses(const std::optional<Expression>& formula, const std::string& name) {
    return formula && formula->names().count(name) != 0;
  }
  std::vector<const TrainedTensor*> used_by(const std::optional<Expression>& formula) const {
    std::vector<const TrainedTensor*> used;
    for (const TrainedTensor& parameter : declared_) {
      if (uses(formula, parameter.name)) used.push_back(&parameter);
    }
    return used;
  }
  bool by_distance() const { return !uses(bias_, "i") && !uses(bias_, "j"); }

  /// Built-in names of a formula, and parameters whose indices it counts.
  FormulaNames names_for(const std::vector<std::string>& own, const std::vector<std::string>& counted) const {
    FormulaNames names;
    for (const std::string& name : own) names[name] = {};
    for (const TrainedTensor& parameter : declared_) {
      std::vector<std::string> indices;
      if (parameter.by_layer) indices.push_back("l");
      indices.insert(indices.end(), parameter.indices.begin(), parameter.indices.end());
      const bool fits = std::all_of(indices.begin(), indices.end(), [&](const std::string& index) {
        return std::find(counted.begin(), counted.end(), index) != counted.end();
      });
      if (fits) names[parameter.name] = indices;
    }
    return names;
  }

  /// "a[l,h] = -h": adds the tensors.
  void declare(const std::string& text) {
    const auto fail = [&](const std::string& why, const std::string& hint = "such as a = 0, a[h] = -h, f[l,g,c] = 0") {
      throw ConfigError(cat("encoding 'formula': parameter ", quote(text), ": ", why), {}, hint);
    };
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) fail("where does it start?");
    std::string head(support::trim(std::string_view(text).substr(0, equals)));
    const std::string start(support::trim(std::string_view(text).substr(equals + 1)));
    TrainedTensor made;
    std::set<std::string> indices;
    if (const std::size_t open = head.find('['); open != std::string::npos) {
      if (head.back() != ']') fail("expected ']' before '='");
      for (const std::string& index : support::split(head.substr(open + 1, head.size() - open - 2), ',')) {
        indices.insert(std::string(support::trim(index)));
      }
      head = std::string(support::trim(head.substr(0, open)));
    }
    made.name = head;
    if (!is_formula_name(head)) fail(cat(quote(head), " is no name, or one of a function"));
    static const std::set<std::string> kTaken{"d", "i", "j", "h", "l", "g", "c", "H", "L", "P"};
    if (kTaken.count(head) != 0) fail(cat(quote(head), " has a meaning already"));
    for (const TrainedTensor& other : declared_) {
      if (other.name == head) fail("it is in the list twice");
    }
    made.by_layer = indices.erase("l") > 0;
    for (const char* index : {"h", "g", "c"}) {
      if (indices.erase(index) > 0) made.indices.push_back(index);
    }
    if (!indices.empty())
      fail(cat("unknown index ", quote(*indices.begin())),
           "indices are h (head), g (key/value head), l (layer) and c (pair)");
    add_tensors(made, start);
    declared_.push_back(std::move(made));
  }

  void add_tensors(TrainedTensor& made, const std::string& start) {
    FormulaNames names{{"l", {}}, {"H", {}}, {"L", {}}, {"P", {}}};
    if (!made.by_layer) names.erase("l");
    for (const std::string& index : made.indices) names[index] = {};
    const Expression initial(start, names, cat("start of ", made.name));
    std::vector<std::int64_t> sizes;
    std::map<std::string, Tensor> values = numbers_of(-1);
    for (std::size_t i = 0; i < made.indices.size(); ++i) {
      sizes.push_back(sizes_.at(made.indices[i]));
      std::vector<std::int64_t> along(made.indices.size(), 1);
      along[i] = sizes.back();
      values[made.indices[i]] =
          at::arange(sizes.back(), at::TensorOptions(at::kDouble).device(shape_.device)).view(along);
    }
    for (int layer = made.by_layer ? 0 : -1; layer < (made.by_layer ? static_cast<int>(shape_.layers) : 0); ++layer) {
      values["l"] = numbers_of(layer).at("l");
      const Tensor value = initial.evaluate(values).expand(sizes).clone();
      made.values.push_back(add_parameter("formula", made.name, value, /*weight_decay=*/false, layer));
    }
  }

  const Tensor& own(const TrainedTensor& parameter, int layer) const {
    return parameter.values.at(parameter.by_layer ? static_cast<std::size_t>(std::max(layer, 0)) : 0);
  }

  /// H, L, P and l as numbers.
  std::map<std::string, Tensor> numbers_of(int layer) const {
    const auto number = [&](std::int64_t value) {
      return at::scalar_tensor(static_cast<double>(value), at::TensorOptions(at::kDouble).device(shape_.device));
    };
    return {{"H", number(shape_.query_heads)},
            {"L", number(options_.train_length.value_or(shape_.train_length))},
            {"P", number(shape_.head_width / 2)},
            {"l", number(std::max(layer, 0))}};
  }

  /// Values of a formula. @param along the dimension, of `dims`, in which each index counts. @param inputs the
  /// formula's parameters in place of the encoding's own; null: these.
  std::map<std::string, Tensor> values_of(const std::optional<Expression>& formula,
                                          const std::map<std::string, Tensor>& places, const Dimensions& along,
                                          std::int64_t dims, int layer, const std::vector<Tensor>* inputs) const {
    std::map<std::string, Tensor> values = numbers_of(layer);
    values.insert(places.begin(), places.end());
    for (const auto& [index, dim] : along) {
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(dims), 1);
      sizes[static_cast<std::size_t>(dim)] = sizes_.at(index);
      values[index] = at::arange(sizes_.at(index), at::TensorOptions(at::kDouble).device(shape_.device)).view(sizes);
    }
    const std::vector<const TrainedTensor*> used = used_by(formula);
    for (std::size_t p = 0; p < used.size(); ++p) {
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(dims), 1);
      for (const std::string& index : used[p]->indices) {
        sizes[static_cast<std::size_t>(along.at(index))] = sizes_.at(index);
      }
      const Tensor& value = inputs != nullptr ? inputs->at(p) : own(*used[p], layer);
      values[used[p]->name] = value.to(at::kDouble).view(sizes);
    }
    return values;
  }

  /// [G,P], or [1,P] where all key/value heads rotate alike.
  Tensor frequencies_at(int layer) const {
    const std::int64_t pairs = shape_.head_width / 2;
    const Tensor made = frequencies_->evaluate(values_of(frequencies_, {}, {{"g", 0}, {"c", 1}}, 2, layer, nullptr));
    // A formula of numbers alone is on the CPU.
    const Tensor theta = (made.dim() == 2 ? made : made.view({1, 1})).to(shape_.device);
    return theta.expand({theta.size(0), pairs});
  }

  /// A formula that is infinite at the start would be found out steps later, as a loss that is no number.
  void require_finite() {
    at::NoGradGuard no_gradients;
    const auto refuse = [](const char* which, const std::string& formula, const char* name, const std::string& place,
                           double value) {
      const bool log = formula.find("log(") != std::string::npos, over = formula.find('/') != std::string::npos;
      const std::string hint =
          log ? cat("at ", name, " = 0 log(", name, ") is infinite: log1p(", name, ") or log(max(", name, ",1)) is not")
          : over ? cat("at ", name, " = 0 1/", name, " is infinite: 1/(1 + ", name, ") or 1/max(", name, ",1) is not")
                 : "";
      throw ConfigError(cat("encoding 'formula': ", which, " is ", value, " ", place), {}, hint);
    };
    constexpr std::int64_t kPlaces = 16;
    const Tensor places = at::arange(kPlaces, at::TensorOptions(at::kDouble).device(shape_.device));
    Span span = Span::whole(1, kPlaces);
    State state{.span = span};
    for (int layer = 0; layer < shape_.layers; ++layer) {
      LayerContext context{.state = state, .span = state.span, .layer = layer};
      const auto in_layer = [&](const std::string& where) { return layer == 0 ? where : cat(where, ", l = ", layer); };
      if (bias_ && by_distance()) {
        const Tensor values = table(context, kPlaces).to(at::kCPU, at::kDouble).t().contiguous();  // [d,h]
        for (std::int64_t at = 0; at < values.numel(); ++at) {
          const double value = values.const_data_ptr<double>()[at];
          const std::int64_t d = at / shape_.query_heads, h = at % shape_.query_heads;
          if (!std::isfinite(value))
            refuse("bias", options_.bias, "d", in_layer(cat("at d = ", d, ", h = ", h)), value);
        }
      } else if (bias_) {
        const Tensor values =
            at_pairs(places, places, layer, nullptr).to(at::kCPU).select(0, 0).contiguous();  // [h,i,j]
        for (std::int64_t at = 0; at < values.numel(); ++at) {
          const double value = values.const_data_ptr<double>()[at];
          const std::int64_t h = at / (kPlaces * kPlaces), i = at / kPlaces % kPlaces, j = at % kPlaces;
          if (j <= i && !std::isfinite(value))
            refuse("bias", options_.bias, j == 0 && i > 0 ? "j" : "i",
                   in_layer(cat("at i = ", i, ", j = ", j, ", h = ", h)), value);
        }
      }
      if (!frequencies_) continue;
      const Tensor theta = frequencies_at(layer).to(at::kCPU).contiguous();  // [g,c]
      for (std::int64_t at = 0; at < theta.numel(); ++at) {
        const double value = theta.const_data_ptr<double>()[at];
        if (!std::isfinite(value))
          refuse("frequencies", options_.frequencies, "c", in_layer(cat("at c = ", at % theta.size(1))), value);
      }
    }
  }

  /// The bias at positions of queries and keys, [n] or [B,n]: [1 or B,H,queries,keys], float64.
  Tensor at_pairs(const Tensor& of_queries, const Tensor& of_keys, int layer, const std::vector<Tensor>* inputs) const {
    const auto place = [](const Tensor& positions, std::int64_t dim) {  // along dimension `dim` of four
      const Tensor p = positions.to(at::kDouble);
      std::vector<std::int64_t> sizes{p.dim() == 2 ? p.size(0) : 1, 1, 1, 1};
      sizes[static_cast<std::size_t>(dim)] = p.size(-1);
      return p.view(sizes);
    };
    const Tensor i = place(of_queries, 2), j = place(of_keys, 3);
    // Hidden keys are after the query: a logarithm of their distance would be no number.
    const std::map<std::string, Tensor> places = {{"i", i}, {"j", j}, {"d", (i - j).clamp_min(0)}};
    Tensor made = bias_->evaluate(values_of(bias_, places, {{"h", 1}}, 4, layer, inputs));
    if (made.dim() != 4) made = made.view({1, 1, 1, 1});
    return made.expand({made.size(0), shape_.query_heads, i.size(2), j.size(3)});
  }

  FormulaOptions options_;
  std::map<std::string, std::int64_t> sizes_;
  std::vector<TrainedTensor> declared_;
  std::optional<Expression> bias_, frequencies_;
};

}  // namespace

EncodingEntry formula_entry() {
  return with_options<Formula, FormulaOptions>(
      {.name = "formula",
       .summary = "A bias or frequencies written in the config, to try an idea before it is programmed.",
       .reference = "this project",
       .facts = {.learned = true},
       .family = Family::kBias,
       .acts_on = "logits, q and k",
       .parameters = "heads",
       .formula = "logit(i,j) += bias(d, i, j, h, l)\n"
                  "pairs (c, c + P) of q and k rotate by position·frequencies(c, g, l)\n"
                  "without either: logit(i,j) += −exp(a_h)·ln(1 + d), a trained",
       .known_for = "Ten ideas before lunch: what the formula says is computed in float64, an operation at a time, and "
                    "trained by "
                    "autograd. The one that wins deserves a source file, which is several times as fast.",
       .errata = {}});
}

}  // namespace pe::encodings
