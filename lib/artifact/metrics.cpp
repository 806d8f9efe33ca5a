#include "artifact/metrics.h"

namespace pe::artifact {

std::vector<ColumnSpec> train_columns() {
  return {{"step", ColumnType::kInteger, "steps"},
          {"tokens", ColumnType::kInteger, "tokens"},
          {"loss", ColumnType::kReal, "nats/token"},
          {"bpb", ColumnType::kReal, "bits/byte"},
          {"lr", ColumnType::kReal, ""},
          {"grad_norm", ColumnType::kReal, ""},
          {"clipped", ColumnType::kInteger, ""}};
}

std::vector<ColumnSpec> validation_columns() {
  return {{"step", ColumnType::kInteger, "steps"},           {"tokens", ColumnType::kInteger, "tokens"},
          {"loss", ColumnType::kReal, "nats/token"},         {"bpb", ColumnType::kReal, "bits/byte"},
          {"tokens_scored", ColumnType::kInteger, "tokens"}, {"bytes_scored", ColumnType::kInteger, "bytes"}};
}

std::vector<ColumnSpec> step_columns() {
  return {{"loss", ColumnType::kReal, "nats/token"}, {"grad_norm", ColumnType::kReal, ""}};
}

std::vector<ColumnSpec> attention_columns() {
  return {{"step", ColumnType::kInteger, "steps"}, {"largest_logit", ColumnType::kReal, ""}};
}

}  // namespace pe::artifact
