/// @file
/// Models without positions by naive loops, from the definition: every structure that a config can ask for.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "model/language_model.h"

namespace pe::test {

using Matrix = std::vector<std::vector<double>>;

class NaiveDecoder {
 public:
  explicit NaiveDecoder(const model::LanguageModel& model) : config_(model.config()) {
    for (const auto& parameter : model.parameters()) {
      const at::Tensor t = parameter.tensor.detach().to(at::kDouble).contiguous();
      weights_[parameter.name] = {t.data_ptr<double>(), t.data_ptr<double>() + t.numel()};
    }
  }

  /// Hidden states of rows of a batch, as long as each other.
  std::vector<Matrix> hidden(const std::vector<std::vector<std::int64_t>>& rows) const {
    std::vector<Matrix> batch;
    for (const auto& ids : rows) {
      Matrix x;
      for (const std::int64_t id : ids) {
        const auto& table = weights_.at("embedding");
        x.emplace_back(table.begin() + id * config_.width, table.begin() + (id + 1) * config_.width);
      }
      batch.push_back(x);
    }
    if (config_.attend_over_batch) batch = turned(batch);
    for (Matrix& x : batch) {
      for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
        const std::string at = "layers." + std::to_string(layer) + ".";
        x = half(x, at + "attention.norm", [&](const Matrix& in) { return attention(in, at + "attention."); });
        if (!config_.bare_attention) {
          x = half(x, at + "feed_forward.norm", [&](const Matrix& in) { return mlp(in, at + "feed_forward."); });
        }
      }
      if (config_.norm_placement == model::NormPlacement::kPre && !config_.bare_attention) x = norm(x, "norm");
    }
    return config_.attend_over_batch ? turned(batch) : batch;
  }

  /// Logits of one hidden state.
  std::vector<double> logits(const std::vector<double>& hidden) const {
    return times({hidden}, config_.tied ? "embedding" : "head", "head.bias")[0];
  }

 private:
  static std::vector<Matrix> turned(const std::vector<Matrix>& batch) {
    std::vector<Matrix> result(batch[0].size(), Matrix(batch.size()));
    for (std::size_t b = 0; b < batch.size(); ++b)
      for (std::size_t t = 0; t < batch[b].size(); ++t) result[t][b] = batch[b][t];
    return result;
  }

  static Matrix sum(Matrix x, const Matrix& y) {
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t i = 0; i < x[t].size(); ++i) x[t][i] += y[t][i];
    return x;
  }

  Matrix half(const Matrix& x, const std::string& norm_name, const std::function<Matrix(const Matrix&)>& f) const {
    if (config_.bare_attention) return f(x);
    if (config_.norm_placement == model::NormPlacement::kPost) return norm(sum(x, f(x)), norm_name);
    return sum(x, f(norm(x, norm_name)));
  }

  Matrix norm(const Matrix& x, const std::string& name) const {
    return config_.norm == model::NormKind::kLayer ? layer_norm(x, name) : rms_norm(x, weights_.at(name));
  }

  Matrix rms_norm(const Matrix& x, const std::vector<double>& weight) const {
    Matrix y = x;
    for (auto& row : y) {
      double squares = 0;
      for (const double value : row) squares += value * value;
      const double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) + config_.norm_eps);
      for (std::size_t i = 0; i < row.size(); ++i) row[i] *= scale * weight[i];
    }
    return y;
  }

  Matrix layer_norm(const Matrix& x, const std::string& name) const {
    Matrix y = x;
    for (auto& row : y) {
      const double n = static_cast<double>(row.size());
      double mean = 0, variance = 0;
      for (const double value : row) mean += value / n;
      for (const double value : row) variance += (value - mean) * (value - mean) / n;
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] = (row[i] - mean) / std::sqrt(variance + config_.norm_eps) * weights_.at(name)[i];
        if (config_.biases) row[i] += weights_.at(name + ".bias")[i];
      }
    }
    return y;
  }

  Matrix times(const Matrix& x, const std::string& name, const std::string& bias) const {
    const auto& weight = weights_.at(name);
    const std::size_t in = x[0].size(), out = weight.size() / in;
    Matrix y(x.size(), std::vector<double>(out, 0.0));
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t o = 0; o < out; ++o) {
        if (weights_.count(bias)) y[t][o] = weights_.at(bias)[o];
        for (std::size_t i = 0; i < in; ++i) y[t][o] += weight[o * in + i] * x[t][i];
      }
    return y;
  }
  Matrix times(const Matrix& x, const std::string& name) const { return times(x, name, name + ".bias"); }

  /// x, and each channel's last tokens by their taps. @param first of the channels that the taps are of
  Matrix canon(const Matrix& x, char where, const std::string& name, std::size_t first = 0) const {
    if (config_.canon.set.find(where) == std::string::npos) return x;
    const auto& taps = weights_.at(name);
    const auto count = static_cast<std::size_t>(config_.canon.kernel);
    Matrix y = x;
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t i = 0; i < x[t].size(); ++i) {
        double sum = config_.canon.bias ? weights_.at(name + ".bias")[first + i] : 0;
        for (std::size_t back = 0; back < count && back <= t; ++back)
          sum += taps[(first + i) * count + count - 1 - back] * x[t - back][i];
        if (config_.canon.activation == model::CanonOptions::Activation::kSilu) sum /= 1 + std::exp(-sum);
        y[t][i] = sum + (config_.canon.residual ? x[t][i] : 0);
      }
    return y;
  }

  Matrix attention(const Matrix& given, const std::string& prefix) const {
    const Matrix x = canon(given, 'A', prefix + "canon_a");
    const auto d = static_cast<std::size_t>(config_.d_h());
    const auto heads = static_cast<std::size_t>(config_.heads), groups = static_cast<std::size_t>(config_.kv_heads());
    Matrix mixed(x.size(), std::vector<double>(heads * d, 0.0));
    const bool width = config_.qk_norm && config_.qk_norm_over == model::QkNormOver::kWidth;
    const auto whole = [&](const Matrix& m, const char* name) {
      return width ? rms_norm(m, weights_.at(prefix + name)) : m;
    };
    const auto by_head = [&](Matrix m, const char* name) {
      if (width || !config_.qk_norm) return m;
      for (auto& row : m)
        for (std::size_t at = 0; at < row.size(); at += d) {
          const auto begin = row.begin() + static_cast<std::ptrdiff_t>(at);
          const Matrix normed = rms_norm({{begin, begin + static_cast<std::ptrdiff_t>(d)}}, weights_.at(prefix + name));
          std::copy(normed[0].begin(), normed[0].end(), begin);
        }
      return m;
    };
    const std::string taps = prefix + "canon_b";
    const Matrix q = canon(by_head(whole(times(x, prefix + "query"), "query_norm"), "query_norm"), 'B', taps);
    const Matrix k = canon(by_head(whole(times(x, prefix + "key"), "key_norm"), "key_norm"), 'B', taps, heads * d);
    const Matrix v = canon(times(x, prefix + "value"), 'B', taps, (heads + groups) * d);
    const auto head = [&](const Matrix& m, std::size_t t, std::size_t h) {
      const auto begin = m[t].begin() + static_cast<std::ptrdiff_t>(h * d);
      return std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(d));
    };
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t g = h * groups / heads;
      for (std::size_t t = 0; t < x.size(); ++t) {
        const auto query = head(q, t, h);
        const std::size_t seen = config_.mask == model::Mask::kCausal ? t + 1 : x.size();
        std::vector<double> weights;
        double total = 0;
        for (std::size_t s = 0; s < seen; ++s) {
          const auto key = head(k, s, g);
          double dot = 0;
          for (std::size_t i = 0; i < d; ++i) dot += query[i] * key[i];
          weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(d))));
          total += weights.back();
        }
        for (std::size_t s = 0; s < seen; ++s) {
          const auto value = head(v, s, g);
          for (std::size_t i = 0; i < d; ++i) mixed[t][h * d + i] += weights[s] / total * value[i];
        }
      }
    }
    if (config_.gate != model::Gate::kNone) {
      const Matrix open = times(x, prefix + "gate");
      const std::size_t per = config_.gate == model::Gate::kHeadwise ? d : 1;  // channels that share a number
      for (std::size_t t = 0; t < x.size(); ++t)
        for (std::size_t i = 0; i < mixed[t].size(); ++i) mixed[t][i] /= 1 + std::exp(-open[t][i / per]);
    }
    return times(mixed, prefix + "output");
  }

  Matrix mlp(const Matrix& given, const std::string& prefix) const {
    const Matrix x = canon(given, 'C', prefix + "canon_c");
    const bool gated = config_.activation == model::Activation::kSwiglu;
    const std::string taps = prefix + "canon_d";
    const Matrix gate = gated ? canon(times(x, prefix + "gate"), 'D', taps) : Matrix();
    Matrix inner = canon(times(x, prefix + "up"), 'D', taps, gated ? gate[0].size() : 0);
    for (std::size_t t = 0; t < inner.size(); ++t)
      for (std::size_t i = 0; i < inner[t].size(); ++i) {
        double& value = inner[t][i];
        if (gated)
          value *= gate[t][i] / (1 + std::exp(-gate[t][i]));
        else if (config_.activation == model::Activation::kRelu)
          value = value > 0 ? value : 0;
        else if (config_.activation == model::Activation::kGeluTanh)
          value *= 0.5 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (value + 0.044715 * value * value * value)));
        else
          value *= 0.5 * std::erfc(-value / std::sqrt(2.0));
      }
    return times(inner, prefix + "down");
  }

  model::ModelConfig config_;
  std::map<std::string, std::vector<double>> weights_;
};

}  // namespace pe::test
