#include <algorithm>

#include "encoding_docs/battery/subjects.h"
#include "encodings/registry.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::encoding_docs::battery {

namespace {

/// A line a subject; apostrophes are quotation marks.
constexpr const char* kMore = R"(
{'kind': 'rope', 'layout': 'interleaved'}
{'kind': 'yarn', 'factor': 4}
{'kind': 'yarn', 'factor': 4, 'ramp': 'rotations'}
{'kind': 'yarn', 'dynamic': true}
{'kind': 'yarn', 'factor': 4, 'over': {'kind': 'partial', 'fraction': 0.5}}
{'kind': 'ntk', 'factor': 4, 'over': {'kind': 'p_rope', 'fraction': 0.5}}
{'kind': 'pi', 'factor': 4, 'over': 'hope'}
{'kind': 'pi', 'dynamic': true}
{'kind': 'yarn', 'factor': 4, 'over': {'kind': 'xpos', 'scale_base': 16}}
{'kind': 'longrope', 'factor': 4, 'over': 'multiscale_rope'}
{'kind': 'ntk', 'factor': 4, 'over': 'pope'}
{'kind': 'yarn', 'factor': 4, 'over': {'kind': 'lrope', 'per_head': true}}
{'kind': 'resonance', 'over': 'multiscale_rope'}
{'kind': 'lrope', 'form': 'direct'}
{'kind': 'lrope', 'form': 'log', 'per_head': true}
{'kind': 'lrope', 'form': 'log_shared', 'layout': 'interleaved'}
{'kind': 'pope', 'delta_init': 'uniform', 'scale_dim': '2d'}
{'kind': 'pope', 'fraction': 0.5}
{'kind': 'fope', 'pad_sin': 1, 'fourier_dim': 16}
{'kind': 'fope', 'learnable': true, 'base': 20}
{'kind': 'inope', 'interval': 2}
{'kind': 'inope', 'interval': 2, 'temperature': true, 'floor_scale': 3}
{'kind': 'cope_clip', 'mode': 'hard', 'fraction': 0.5}
{'kind': 'clex', 'train_length': 2, 'act': 'silu', 'dt': 0.1, 'layout': 'interleaved'}
{'stack': ['clex', 't5', 'ssmax']}
{'kind': 'dyn_ntk', 'factor': 2}
{'kind': 'llama3', 'low_freq_factor': 0.1, 'high_freq_factor': 2}
{'kind': 'longrope', 'factor': 4}
{'kind': 'longrope', 'factor': 4, 'protected': 3, 'train_length': 4}
{'kind': 'longrope2', 'factor': 4, 'train_length': 4}
{'kind': 'yarn_resonance', 'factor': 4}
{'kind': 'longrope_resonance', 'factor': 4, 'train_length': 4}
{'kind': 'sinonly', 'mode': 'dup'}
{'kind': 'sinonly', 'mode': 'zeros', 'pe_scale': 'matched'}
{'kind': 'binary_norm', 'fill': 'tile', 'pe_max_positions': 64}
{'kind': 'decimal', 'fill': 'project'}
{'kind': 'sininit', 'overflow': 'untrained'}
{'kind': 'learned', 'overflow': 'interpolate'}
{'kind': 'learned', 'overflow': 'untrained', 'pe_scale': 'learned'}
{'kind': 'sinusoidal', 'pe_scale': 'matched'}
{'kind': 'fire', 'initial_length': 3}
{'kind': 'cope', 'positions': 3, 'cope_div': true}
{'kind': 'ssmax', 'offset': true}
{'kind': 'kerple_log', 'shared': false}
{'kind': 'bam', 'location': true}
{'kind': 'bam_ssmax', 'scale_prior': false}
{'kind': 'fire_per_head', 'initial_length': 3}
{'kind': 'logn', 'form': 'clipped', 'train_length': 4}
{'kind': 'uniform_scale', 'scale': 1.5, 'learned': true}
{'kind': 'llama4_temp', 'floor_scale': 4}
{'kind': 'asentmax_scale', 'form': 'reported'}
{'kind': 'sink_kv', 'value': 'learned'}
{'kind': 'sink_bos', 'window': 3}
{'stack': ['alibi', {'kind': 'sink_bos', 'window': 2, 'keep': 2}]}
{'kind': 'fox', 'gate': 'bias_only'}
{'kind': 'fox', 'gate': 'fixed'}
{'kind': 'grape_a', 'form': 'k'}
{'kind': 'grape_a', 'form': 'q'}
{'kind': 'stickbreaking', 'attend_current': true}
{'kind': 'stickbreaking', 'remainder': false}
{'kind': 'path_fox', 'path_fox_scale_gate': true}
{'kind': 'repo', 'start': 1, 'layout': 'interleaved'}
{'kind': 'dape', 'bias': 'fire'}
{'kind': 'dape', 'bias': 'none'}
{'kind': 'dape_v2', 'bias': 'alibi'}
{'kind': 'dape_v2', 'bias': 'none'}
{'kind': 'cope_guide', 'positions': 4}
{'stack': ['rope', 'cope_guide']}
{'stack': ['rope', 'fox', 'ssmax']}
{'stack': ['alibi', 'sink_logit']}
{'stack': ['fox', 'sink_off_by_one', 'head_scale']}
{'stack': ['kerple_log', 'sink_logit']}
{'stack': ['path', 'alibi', 'stickbreaking']}
{'stack': ['rope', 'grape_a']}
{'stack': ['rope', 'dape_v2', 'logn']}
{'stack': ['nape', 'asentmax_scale']}
{'stack': ['rope', 'selective', 'sink_kv']}
{'stack': [{'kind': 'randomised', 'per_sample': true, 'max_random_position': 128}, 'grape_ap', 'dape']}
{'stack': [{'kind': 'randomised', 'max_random_position': 128}, 'bam_ssmax', 'fox']}
{'stack': ['ssmax', 'rope']}
{'stack': ['rope', 'alibi']}
{'stack': ['pope', 'alibi', 'ssmax']}
{'stack': ['xpos', 'cope', 'ssmax']}
{'stack': ['multiscale_rope', 't5']}
{'stack': [{'kind': 'randomised', 'per_sample': true, 'max_random_position': 128}, 'multiscale_rope']}
{'stack': [{'kind': 'randomised', 'per_sample': true, 'max_random_position': 128}, 'pope']}
{'stack': [{'kind': 'randomised', 'max_random_position': 128}, {'kind': 'lrope', 'per_head': true}]}
{'stack': [{'kind': 'randomised', 'per_sample': true, 'max_random_position': 128}, 'xpos', {'kind': 'binary_norm', 'pe_max_positions': 128}]}
{'stack': ['rope', 'cope']}
{'stack': ['rope', {'kind': 'cope', 'gates': 'raw', 'z': 'rot'}]}
{'stack': ['alibi', 'ssmax', 'cope']}
{'stack': ['alibi', {'kind': 'alibi', 'slopes': [0.3, 0.2]}]}
{'stack': ['t5', 'fire', 'sinusoidal']}
{'stack': ['alibi', 't5', 'yarn']}
{'stack': [{'kind': 'randomised', 'max_random_position': 128}, 'rope']}
{'stack': [{'kind': 'randomised', 'per_sample': true, 'max_random_position': 128}, 'alibi', 't5']}
{'stack': [{'kind': 'randomised', 'scope': 'model', 'max_random_position': 128}, 'fire', 'cope']}
{'stack': [{'kind': 'randomised', 'max_random_position': 128}, {'kind': 'learned', 'max_positions': 128}]}
{'stack': ['abacus', 'rope']}
{'kind': 'bipe', 'inter': 'alibi'}
{'stack': ['coupled', {'kind': 'learned', 'max_positions': 513}]}
{'kind': 'rove', 'fraction': 0.5, 'layout': 'interleaved'}
{'kind': 'rove', 'keys': false}
{'kind': 'rove', 'undo': false}
{'stack': ['rove', 'alibi', 'sink_logit']}
{'kind': 'rope_id', 'turns': 1, 'fraction': 1}
{'kind': 'rope_id', 'layout': 'interleaved', 'train_length': 32}
{'kind': 'carope', 'layout': 'interleaved'}
{'kind': 'selective_rope', 'rank': 3, 'bias': true, 'gate': true, 'values': true}
{'kind': 'selective_rope', 'increments': 'plain', 'layout': 'interleaved'}
{'kind': 'selective_rope', 'increments': 'own', 'values': true}
{'kind': 'selective_rope', 'increments': 'random', 'gate': true}
{'kind': 'entmax', 'alpha': 2}
{'kind': 'entmax', 'alpha': 1.25}
{'stack': ['nape', 'asentmax_scale', 'entmax']}
{'stack': ['rope', 't5', 'entmax']}
{'kind': 'transformer_xl', 'clamp_length': 3, 'untie': true}
{'stack': ['rope', 'transformer_xl', 'ssmax']}
{'stack': ['alibi', 'tapa']}
{'kind': 'distance_map', 'rule': 'leaky_rerope'}
{'kind': 'distance_map', 'rule': 'leaky_rerope', 'factor': 3, 'over': {'kind': 'partial', 'fraction': 0.5}}
{'kind': 'distance_map', 'rule': 'self_extend'}
{'kind': 'distance_map', 'rule': 'self_extend', 'group': 2, 'window': 3}
{'kind': 'distance_map', 'rule': 'dca', 'chunk': 3, 'layout': 'interleaved'}
{'kind': 'distance_map', 'rule': 'lm_infinite', 'window': 3, 'sinks': 2}
{'kind': 'distance_map', 'logn': true}
{'stack': [{'kind': 'pose', 'target': 100}, 'rope']}
{'stack': [{'kind': 'cream', 'target': 100}, 'fire']}
{'stack': [{'kind': 'rfs', 'per_sample': true}, 'rope', 'alibi']}
{'stack': ['rfs', 'cope', 'grape_ap']}
{'kind': 'shaw', 'max_distance': 3}
{'kind': 'shaw', 'max_distance': 4, 'per_head': true, 'values': false}
{'stack': ['rope', {'kind': 'shaw', 'max_distance': 2, 'per_head': true}, 'entmax']}
{'kind': 'inkling', 'extent': 3, 'profiles': 2}
{'kind': 'inkling', 'extent': 64, 'profiles': 3, 'floor_scale': 3, 'alpha': 0.5}
{'stack': ['rope', {'kind': 'inkling', 'floor_scale': 2}, 'sink_logit']}
{'stack': [{'kind': 'inkling', 'extent': 5, 'floor_scale': 2}, {'kind': 'local_global', 'interval': 2, 'size': 4}, {'kind': 'uniform_scale', 'scale': 0.5}]}
{'stack': [{'kind': 'randomised', 'per_sample': true, 'max_random_position': 128}, {'kind': 'inkling', 'extent': 20}]}
{'kind': 'window', 'size': 3}
{'stack': ['rope', {'kind': 'window', 'size': 4}]}
{'stack': ['t5', 'ssmax', {'kind': 'window', 'size': 9}]}
{'stack': ['fire', 'sink_logit', {'kind': 'window', 'size': 3}]}
{'stack': ['cope', {'kind': 'window', 'size': 5}]}
{'stack': ['selective', {'kind': 'window', 'size': 4}]}
{'kind': 'local_global', 'interval': 2, 'size': 3, 'phase': 0}
{'kind': 'local_global', 'interval': 2, 'scale': 'logn', 'train_length': 4}
{'kind': 'formula', 'bias': '-2^(-8*(h+1)/H)*d'}
{'kind': 'formula', 'frequencies': '10000^(-c/P)'}
{'kind': 'formula', 'frequencies': 'exp(f[l,g,c])', 'parameters': ['f[l,g,c] = -c*(g+1)/P']}
{'kind': 'formula', 'bias': 's[l]*tanh(d*softplus(a[h]))', 'parameters': ['a[h] = h', 's[l] = -1']}
{'kind': 'formula', 'bias': 'a[h]*sin(j/9) + b*cos(j/7)', 'parameters': ['a[h] = 1', 'b = 0.5']}
{'stack': [{'kind': 'formula', 'frequencies': '100^(-c/P)', 'bias': '-a*max(d-3,0)^1.5', 'parameters': ['a = 0.1']}, 'ssmax']}
)";

}  // namespace

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const encodings::EncodingEntry& entry : encodings::encodings()) {
    Json config = entry.name;
    // Sixteen bits do not fit eight channels.
    if (support::find_field(entry.fields, "pe_max_positions") != nullptr) {
      config = {{"kind", entry.name}, {"pe_max_positions", 256}};
    }
    all.push_back({entry.name, config});
  }
  for (std::string text : support::split(kMore, '\n')) {
    if (text.empty()) continue;
    std::string name = text;
    name.erase(std::remove(name.begin(), name.end(), '\''), name.end());
    std::replace(text.begin(), text.end(), '\'', '"');
    all.push_back({name, support::require_json(text)});
  }
  return all;
}

const char* exemption(const Subject& subject, const std::string& property) {
  struct Exemption {
    const char *property, *encoding, *reason;
  };
  static const Exemption kExemptions[] = {
      {"training", "distance_map", "evaluates a model that was trained with another encoding, and refuses to train"},
      {"row by row", "selective", "sums what earlier queries selected, and refuses a pass without these"},
      {"row by row", "tape", "updates a state of all tokens in every layer, and refuses a pass without these"},
      {"shared keys", "fope", "mixes frequencies for each head, and refuses shared keys"},
      {"shared keys", "repo", "gives each head its own positions, and refuses shared keys"},
      {"moved rows", "tape", "the second layer reads what the first mixed in from the rows before"},
  };
  const Json members = subject.config.is_object() && subject.config.contains("stack") ? subject.config["stack"]
                                                                                      : Json::array({subject.config});
  for (const Exemption& exemption : kExemptions) {
    if (property != exemption.property) continue;
    for (const Json& member : members) {
      if ((member.is_string() ? member : member["kind"]) != exemption.encoding) continue;
      return exemption.reason;
    }
  }
  return nullptr;
}

bool contains(const Subject& subject, const std::string& encoding) {
  const auto is = [&](const Json& member) {
    const Json* kind = member.is_object() && member.contains("kind") ? &member["kind"] : &member;
    return kind->is_string() && kind->get<std::string>() == encoding;
  };
  if (!subject.config.is_object() || !subject.config.contains("stack")) return is(subject.config);
  const Json& members = subject.config["stack"];
  return std::any_of(members.begin(), members.end(), is);
}

}  // namespace pe::encoding_docs::battery
