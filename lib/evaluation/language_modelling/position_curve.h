/// @file
/// Loss by position in a text: binned for every document, and summed up over documents.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/tables.h"

namespace pe::evaluation {

/// Rows of some documents, for the journal. They have sums and squares by bin, and each document's losses in bins of a
/// quarter of the training length. @param losses [document][position], nats, all of one length. Position 0 has no loss.
schema::Rows position_items(const std::vector<std::vector<double>>& losses, std::int64_t train_length);

/// Tables lm_position and lm_length of all documents. @param items results of position_items, in order
schema::Rows position_tables(const std::string& corpus, const std::vector<schema::Rows>& items,
                             std::int64_t train_length);

}  // namespace pe::evaluation
