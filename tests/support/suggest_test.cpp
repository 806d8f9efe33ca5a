#include "support/suggest.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "support/files.h"
#include "support/temp_folder.h"

using namespace pe::support;

namespace {

/// The word that a suggestion offers; "nothing" where it offers none.
std::string offered(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string text = suggestion(word, candidates), begin = "did you mean '";
  if (text.rfind(begin, 0) != 0) return "nothing";
  return text.substr(begin.size(), text.size() - begin.size() - 2);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(suggest)

BOOST_AUTO_TEST_CASE(the_nearest_word_is_found) {
  BOOST_TEST(nearest("warmup_step", {"warmup_steps", "decay"}).value() == "warmup_steps");
  BOOST_TEST(nearest("rpoe", {"rope", "pope"}).value() == "rope");  // a swap costs one
  BOOST_TEST(!nearest("xyz", {"rope", "alibi"}));
  BOOST_TEST(nearest("tokens", {"train.tokens", "train.batch"}).value() == "train.tokens");
  BOOST_TEST(nearest("avx", {"amx", "avx2"}).value() == "avx2");  // it begins with the word
}

BOOST_AUTO_TEST_CASE(names_of_other_programs_are_understood) {
  const std::vector<std::string> keys{
      "train.peak_lr", "train.batch", "train.tokens", "train.length",   "train.weight_decay",    "train.warmup_steps",
      "train.clip",    "model.width", "model.layers", "model.encoding", "model.key_value_heads", "compute.micro_batch"};
  for (const auto& [typed, meant] :
       std::vector<std::pair<std::string, std::string>>{{"lr", "train.peak_lr"},
                                                        {"train.lr", "train.peak_lr"},
                                                        {"LR", "train.peak_lr"},
                                                        {"learning-rate", "train.peak_lr"},
                                                        {"bs", "train.batch"},
                                                        {"batch_size", "train.batch"},
                                                        {"wd", "train.weight_decay"},
                                                        {"steps", "train.tokens"},
                                                        {"train.max_steps", "train.tokens"},
                                                        {"d_model", "model.width"},
                                                        {"n_layers", "model.layers"},
                                                        {"seq_len", "train.length"},
                                                        {"max_grad_norm", "train.clip"},
                                                        {"model.pe", "model.encoding"}}) {
    BOOST_TEST(offered(typed, keys) == meant, typed << " gives " << offered(typed, keys));
  }
  BOOST_TEST(offered("nope", {"rope", "none", "pope"}) == "none");  // and not the nearest by spelling
  BOOST_TEST(offered("nope", {"rope", "pope"}) == "rope");          // where there is no other
  BOOST_TEST(offered("gpu", {"auto", "cpu", "cuda"}) == "cuda");
  BOOST_TEST(offered("bfloat16", {"fp32", "bf16", "fp16"}) == "bf16");
  BOOST_TEST(offered("step", {"tokens", "steps", "flops"}) == "steps");
}

BOOST_AUTO_TEST_CASE(parts_and_beginnings_of_words_are_understood) {
  const std::vector<std::string> keys{"peak_lr",     "warmup_steps",     "weight_decay",
                                      "decay_share", "validate_windows", "encoding"};
  BOOST_TEST(offered("warmup_tokens_steps", keys) == "warmup_steps");  // holds its parts
  BOOST_TEST(offered("windows", keys) == "validate_windows");
  BOOST_TEST(offered("share", keys) == "decay_share");
  BOOST_TEST(offered("enc", keys) == "encoding");
  BOOST_TEST(offered("WarmupSteps", keys) == "warmup_steps");
  BOOST_TEST(offered("of", {"end_of_text"}) == "nothing");  // short parts say nothing
  BOOST_TEST(offered("", keys) == "nothing");
}

BOOST_AUTO_TEST_CASE(the_group_that_was_typed_goes_first) {
  const std::vector<std::string> keys{"data.length", "train.length"};
  BOOST_TEST(offered("train.seq_len", keys) == "train.length");
  BOOST_TEST(offered("seq_len", keys) == "data.length");
}

BOOST_AUTO_TEST_CASE(a_word_of_which_nothing_is_left_is_no_slip) {
  BOOST_TEST(suggestion("3", {"1", "2"}) == "expected one of 1, 2");
  BOOST_TEST(offered("12", {"1", "22"}) == "1");
}

BOOST_AUTO_TEST_CASE(files_are_compared_by_their_own_names) {
  const pe::test::TempFolder folder;
  for (const char* name : {"pipelines/quickstart.yml", "pipelines/retrieval.yml", "pipelines/fineweb_smoke.yml",
                           "pipelines/quickstart.lock", "ask.yml"}) {
    std::filesystem::create_directories((folder / name).parent_path());
    write_file_atomically(folder / name, "", false);
  }
  const auto meant = [&](const std::string& path) { return file_suggestion(folder / path, {".yml"}); };
  const auto answer = [&](const std::string& path) { return "did you mean '" + (folder / path).string() + "'?"; };
  BOOST_TEST(meant("pipelines/quikstart.yml") == answer("pipelines/quickstart.yml"));
  BOOST_TEST(meant("pipelines/fineweb_smok.yml") == answer("pipelines/fineweb_smoke.yml"));
  BOOST_TEST(meant("quickstart.yml") == answer("pipelines/quickstart.yml"));  // it is a folder further down
  BOOST_TEST(meant("pipelines/quickstart.yaml") == answer("pipelines/quickstart.yml"));
  BOOST_TEST(meant("pipelines/something.yml") == "");
  BOOST_TEST(meant("nowhere/quickstart.yml") == "");
}

BOOST_AUTO_TEST_CASE(without_a_near_word_a_short_list_is_shown) {
  BOOST_TEST(suggestion("xyz", {"rope", "alibi"}) == "expected one of rope, alibi");
  BOOST_TEST(suggestion("xyz", {}).empty());
  BOOST_TEST(did_you_mean("xyz", {"rope", "alibi"}).empty());
  BOOST_TEST(did_you_mean("rop", {"rope", "alibi"}) == "did you mean 'rope'?");
  // Of a long list only names that have something in common with the word.
  std::vector<std::string> many;
  for (char c = 'a'; c <= 'z'; ++c) many.push_back(std::string("encoding_") + c);
  BOOST_TEST(suggestion("gaussian", many) == "expected one of 26 names, such as encoding_a, encoding_b, encoding_c");
  many.push_back("gausabcn");
  BOOST_TEST(suggestion("gaussian", many) == "the nearest of 27 names is 'gausabcn'");
  many.push_back("gaussabcde");
  BOOST_TEST(suggestion("gaussian", many) == "the nearest of 28 names are 'gausabcn', 'gaussabcde'");
}

BOOST_AUTO_TEST_SUITE_END()
