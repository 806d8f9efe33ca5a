/// @file
/// Losses of trainings as curves over tokens: trunks, the branches that fork off them, and the units that their x axis
/// may have.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "report/figures/figure.h"
#include "report/results/results.h"

namespace pe::report {

/// A centred mean over up to 2·half + 1 logged steps, truncated at the ends.
std::vector<Point> smoothed(const std::vector<CurvePoint>& points, std::size_t half);
std::string smoothing_words(std::size_t half);  ///< "centred mean over 5 logged steps", "as logged"
std::vector<Point> plain(const std::vector<CurvePoint>& points);

/// Training loss less the other's at the steps that both logged.
std::vector<CurvePoint> paired_gap(const Curve& curve, const Curve& base);

/// Snapshots of one trunk hold the same training up to different steps: the longest says all.
std::vector<const Curve*> distinct(const std::vector<Curve>& curves);
double last_tokens(const Curve& curve);  ///< tokens of its last logged step
std::vector<const Curve*> pointers_to(const std::vector<Curve>& curves);
/// The curves of an encoding and a variant, in the same order.
std::vector<const Curve*> curves_of(const std::vector<const Curve*>& curves, const std::string& encoding,
                                    const std::string& variant);
/// Their encodings and variants, each pair once, in order of first use.
std::vector<std::pair<std::string, std::string>> arms_of(const std::vector<const Curve*>& curves);
std::vector<std::string> variants_of(const std::vector<const Curve*>& curves);  ///< each once, in order of first use
/// A setting of its config by dotted key. A branch without it has the setting of the training that it continues. Null
/// where neither has it.
Json setting_of(const Curve& curve, const std::string& key);
/// Gives branches the group model of the trainings that they continue, where these were gathered and agree.
void inherit_settings(std::vector<Curve>& curves);
/// Sequences of a step, from its setting or from the tokens by step; NaN without either.
double batch_of(const Curve& curve);

/// Windows of the validation split that its loss is the mean of, as its config says; 0 where it does not. The first
/// ones are used, so losses over another number are losses on other text.
std::int64_t validation_windows(const Curve& curve);
/// Whether the losses of two trainings are on the same text, as far as their configs say.
bool same_validation(const Curve& a, const Curve& b);

/// The data of a training in words: as the report's config names it, else the label of its axis `data` or `text`, else
/// `unnamed`.
std::string data_name(const Results& results, const Curve& curve, const std::string& unnamed);

/// The training that a branch forked off; null for one from scratch, or where the trunk was not gathered.
const Curve* trunk_of(const std::vector<const Curve*>& curves, const Curve& branch);
double fork_tokens_of(const Curve& branch, const Curve& trunk);
/// With the trunk's last point before the fork in front, so that a branch leaves its trunk and not thin air.
std::vector<Point> from_fork(std::vector<Point> points, const std::vector<Point>& trunk, double fork_tokens);

/// The mean over seeds at the places that all of them have.
std::vector<Point> mean_of(const std::vector<std::vector<Point>>& seeds);

/// 6 N + 12 L H d_h T with N the weights in matrix products, from the training's config; NaN where that does not say.
double flops_per_token(const Curve& curve);
/// Steps, FLOPs and hours that one token is, as far as they are known.
std::map<std::string, double> units_of(const Results& results, const Curve& curve);
/// The units that every series of a figure over tokens has. It is drawn in the unit of the results (`x_unit`) where a
/// token is the same amount of it in all series. Tokens are then one of the other units. @return the unit in use
std::string add_units(Figure& figure, const Results& results);

}  // namespace pe::report
