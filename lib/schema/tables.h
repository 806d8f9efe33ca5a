/// @file
/// All tables of an evaluation, in the order in which an artifact (kind eval-table) has them.
#pragma once

#include <vector>

#include "schema/algorithmic.h"
#include "schema/language_modelling.h"
#include "schema/models.h"
#include "schema/probes.h"
#include "schema/retrieval.h"
#include "schema/rows.h"

namespace pe::schema {

template <typename... Rows>
struct TypeList {};

using EvaluationTables =
    TypeList<LmDocument, LmSummary, LmKeyToken, LongPplDocument, LongPpl, LmWords, LmPosition, LmLength,
             ExtensionDocument, Extension, RetrievalTrial, RetrievalSummary, RetrievalLadder, AlgoTrial, AlgoSummary,
             AlgoLength, Cost, ProbeAttention, ProbeAttentionOctave, ProbeArgmax, ProbeMap, ProbeSink, ProbeSinkSummary,
             ProbePosition, ProbeFrequency, ProbeFrequencyDistance, ProbeAngle, ProbeLogit, ProbeCircuit,
             ProbeCircuitSummary, ProbeReliance, ProbePositionLoss, ProbeSimilarity, Sample, Parameters>;

/// lm_*, retrieval_*, algo_*, cost, probe_*, samples, parameters; columns without the identity.
const std::vector<Layout>& layouts();

/// The artifact's tables, in this order; tables without rows are left out.
std::vector<artifact::Table> make_tables(const Rows& rows, const Identity& identity);

}  // namespace pe::schema
