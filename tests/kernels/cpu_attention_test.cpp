// The CPU's attention, in every instruction set that this machine has, against loops in float64.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "instruction_sets.h"
#include "kernels/product_bf16.h"
#include "support/random.h"

namespace {

using namespace pe::kernels;
using pe::test::instruction_sets;
using Values = std::vector<float>;

Values normals(std::uint64_t key, std::int64_t count) {
  std::vector<double> drawn(static_cast<std::size_t>(count));
  pe::support::philox_normal(key, drawn.data(), drawn.size());
  return {drawn.begin(), drawn.end()};
}

struct Case {
  std::int64_t batch, heads, groups, queries, keys, width, value_width;
  bool table, documents, sum_gradient;
};

/// Inputs have the layout of a packed projection: heads of a token side by side, then keys' and values'.
struct Inputs {
  Case of;
  std::int64_t row;
  Values packed, table, dout, dlse;
  std::vector<std::int64_t> starts;
  AttentionShape shape;
  const float *q, *k, *v;

  explicit Inputs(const Case& c)
      : of(c),
        row(c.heads * c.width + c.groups * (c.width + c.value_width)),
        packed(normals(1, c.batch * c.keys * row)),
        table(normals(2, c.heads * c.keys)),
        dout(normals(3, c.batch * c.heads * c.queries * c.value_width)),
        dlse(normals(4, c.batch * c.heads * c.queries)) {
    shape = {c.batch, c.heads, c.groups, c.queries, c.keys, c.width, c.value_width};
    q = packed.data() + (c.keys - c.queries) * row;
    k = packed.data() + c.heads * c.width;
    v = k + c.groups * c.width;
    shape.q = {c.keys * row, c.width, row};
    shape.k = shape.q;
    shape.v = {c.keys * row, c.value_width, row};
    shape.out = shape.dout = {c.heads * c.queries * c.value_width, c.value_width, c.heads * c.value_width};
    shape.scale = 0.3F;
    if (c.table) shape.table = table.data();
    if (c.documents) {  // the second sequence in pieces of another length
      for (std::int64_t b = 0; b < c.batch; ++b)
        for (std::int64_t s = 0; s < c.keys; ++s) starts.push_back(s - s % (b == 0 ? 7 : 300));
      shape.starts = starts.data();
      shape.starts_batch = c.keys;
    }
  }
};

struct Results {
  Values out, lse, dq, dk, dv, dtable;
};

/// The definition.
Results naive(const Inputs& in) {
  const auto& [B, H, G, T, S, d, dv, with_table, documents, sum_gradient] = in.of;
  Results r;
  r.out.resize(B * H * T * dv);
  r.lse.resize(B * H * T);
  std::vector<double> dq(B * H * T * d), dk(B * G * S * d), dvs(B * G * S * dv), dtable(B * H * S);
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t t = 0; t < T; ++t) {
        const std::int64_t g = h / (H / G), place = S - T + t, from = documents ? in.starts[b * S + place] : 0;
        const float *q = in.q + b * in.shape.q.batch + h * d + t * in.row, *k = in.k + b * in.shape.k.batch + g * d,
                    *v = in.v + b * in.shape.v.batch + g * dv;
        std::vector<double> s(place + 1), slope(place + 1);
        double top = -std::numeric_limits<double>::infinity(), total = 0;
        for (std::int64_t j = from; j <= place; ++j) {
          for (std::int64_t i = 0; i < d; ++i) s[j] += static_cast<double>(q[i]) * k[j * in.row + i];
          s[j] = s[j] * in.shape.scale + (with_table ? in.table[h * S + place - j] : 0.0F);
          top = std::max(top, s[j]);
        }
        for (std::int64_t j = from; j <= place; ++j) total += std::exp(s[j] - top);
        const double lse = top + std::log(total);
        r.lse[(b * H + h) * T + t] = static_cast<float>(lse);
        const std::int64_t at = ((b * T + t) * H + h) * dv;
        std::vector<double> out(dv);
        double inner = sum_gradient ? -static_cast<double>(in.dlse[(b * H + h) * T + t]) : 0;
        for (std::int64_t j = from; j <= place; ++j)
          for (std::int64_t i = 0; i < dv; ++i) out[i] += std::exp(s[j] - lse) * v[j * in.row + i];
        for (std::int64_t i = 0; i < dv; ++i) {
          r.out[at + i] = static_cast<float>(out[i]);
          inner += in.dout[at + i] * out[i];
        }
        for (std::int64_t j = from; j <= place; ++j) {
          const double p = std::exp(s[j] - lse);
          double product = 0;
          for (std::int64_t i = 0; i < dv; ++i) {
            product += static_cast<double>(in.dout[at + i]) * v[j * in.row + i];
            dvs[((b * G + g) * S + j) * dv + i] += p * in.dout[at + i];
          }
          const double ds = p * (product - inner);
          dtable[(b * H + h) * S + place - j] += ds;
          for (std::int64_t i = 0; i < d; ++i) {
            dq[((b * H + h) * T + t) * d + i] += ds * in.shape.scale * k[j * in.row + i];
            dk[((b * G + g) * S + j) * d + i] += ds * in.shape.scale * q[i];
          }
        }
      }
  r.dq.assign(dq.begin(), dq.end());
  r.dk.assign(dk.begin(), dk.end());
  r.dv.assign(dvs.begin(), dvs.end());
  r.dtable.assign(dtable.begin(), dtable.end());
  return r;
}

constexpr float kGuard = 12345;

/// Everything that multiplies in bf16 here: the forms in fp32 arithmetic, and the units of this CPU.
std::vector<const Bf16Table*> bf16_tables() {
  std::vector<const Bf16Table*> tables;
  for (const std::string& set : instruction_sets())
    if (set != "AVX512") tables.push_back(&plain_bf16_table(set));
  for (const auto unit : {Bf16Unit::kAvx512, Bf16Unit::kAmx})
    if (const Bf16Table* table = bf16_table_of(unit)) tables.push_back(table);
  return tables;
}

/// Results by the kernels, in `parts` calls each, with products in bf16 where `bf16` is set. Outputs and scratch memory
/// hold NaN before, and a guard after them.
Results by_kernels(const Table& table, const Inputs& in, std::int64_t parts, const Bf16Table* bf16 = nullptr) {
  const auto& [B, H, G, T, S, d, dv, with_table, documents, sum_gradient] = in.of;
  const auto empty = [](std::int64_t n) {
    Values v(static_cast<std::size_t>(n + 1), std::numeric_limits<float>::quiet_NaN());
    v.back() = kGuard;
    return v;
  };
  Results r{empty(B * H * T * dv), empty(B * H * T),      empty(B * H * T * d),
            empty(B * G * S * d),  empty(B * G * S * dv), empty(B * H * S)};
  const auto in_parts = [&](std::int64_t count, std::int64_t floats, const auto& call) {
    const std::int64_t step = (count + parts - 1) / parts;
    for (std::int64_t first = 0; first < count; first += step) {
      Values scratch = empty(floats);
      call(first, std::min(count, first + step), scratch.data());
      BOOST_TEST(scratch.back() == kGuard);
    }
  };
  const std::int64_t forward_floats =
      bf16 != nullptr ? attention_in_bf16_scratch(in.shape) : attention_scratch(in.shape);
  in_parts(B * H * attention_blocks(T), forward_floats, [&](std::int64_t first, std::int64_t last, float* scratch) {
    if (bf16 != nullptr)
      table.attention_in_bf16(*bf16, in.shape, in.q, in.k, in.v, r.out.data(), r.lse.data(), first, last, scratch);
    else
      table.attention(in.shape, in.q, in.k, in.v, r.out.data(), r.lse.data(), first, last, scratch);
  });
  const AttentionGradients to{r.dq.data(), r.dk.data(), r.dv.data(), with_table ? r.dtable.data() : nullptr};
  const float* dlse = sum_gradient ? in.dlse.data() : nullptr;
  const std::int64_t backward_floats =
      bf16 != nullptr ? attention_in_bf16_backward_scratch(in.shape) : attention_backward_scratch(in.shape);
  in_parts(B * G, backward_floats, [&](std::int64_t first, std::int64_t last, float* scratch) {
    if (bf16 != nullptr) {
      table.attention_in_bf16_backward(*bf16, in.shape, in.q, in.k, in.v, r.out.data(), in.dout.data(), r.lse.data(),
                                       dlse, to, first, last, scratch);
    } else {
      table.attention_backward(in.shape, in.q, in.k, in.v, r.out.data(), in.dout.data(), r.lse.data(), dlse, to, first,
                               last, scratch);
    }
  });
  for (Values* values : {&r.out, &r.lse, &r.dq, &r.dk, &r.dv, &r.dtable}) {
    BOOST_TEST(values->back() == kGuard);
    values->pop_back();
  }
  return r;
}

void compare(const char* what, const Values& found, const Values& expected, double bound = 5e-6) {
  double most = 1, off = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(expected[i])));
    const double difference = std::abs(static_cast<double>(found[i]) - expected[i]);
    off = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(off, difference);
  }
  BOOST_TEST(off <= bound * most, what << " is off by " << off << " of " << most);
}

// Remainders in every dimension, more keys than one block holds, heads that share keys, wider and narrower values.
constexpr Case kCases[] = {
    {1, 1, 1, 1, 1, 1, 1, true, false, false},       {2, 2, 2, 65, 65, 16, 16, false, false, false},
    {2, 4, 2, 100, 100, 33, 33, true, false, false}, {1, 2, 1, 37, 301, 32, 32, true, false, true},
    {1, 3, 1, 600, 600, 20, 48, true, false, true},  {2, 2, 2, 310, 310, 64, 64, false, true, false},
    {2, 2, 1, 290, 330, 48, 17, true, true, true},   {1, 1, 1, 258, 258, 130, 7, true, false, false},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cpu_attention)

BOOST_AUTO_TEST_CASE(is_that_of_loops_in_float64) {
  for (const std::string& set : instruction_sets()) {
    const Table& table = table_for(set);
    for (const Case& c : kCases) {
      const Inputs in(c);
      const Results expected = naive(in), found = by_kernels(table, in, 1);
      BOOST_TEST_CONTEXT(set << ", " << c.queries << " of " << c.keys << " rows of " << c.width << " and "
                             << c.value_width) {
        compare("out", found.out, expected.out);
        compare("lse", found.lse, expected.lse);
        compare("dq", found.dq, expected.dq);
        compare("dk", found.dk, expected.dk);
        compare("dv", found.dv, expected.dv);
        if (c.table) compare("dtable", found.dtable, expected.dtable);
      }
    }
  }
}

// Of operands that bf16 holds logits are exact, and so are their sums; weights and slopes keep eight bits.
BOOST_AUTO_TEST_CASE(in_bf16_is_that_of_loops_but_for_rounded_weights) {
  for (const std::string& set : instruction_sets()) {
    for (const Bf16Table* bf16 : bf16_tables()) {
      for (const Case& c : kCases) {
        Inputs in(c);
        for (Values* values : {&in.packed, &in.dout})
          for (float& x : *values) x = c10::BFloat16(x);
        const Results expected = naive(in), found = by_kernels(table_for(set), in, 1, bf16);
        BOOST_TEST_CONTEXT(set << ", " << c.queries << " of " << c.keys << " rows of " << c.width << " and "
                               << c.value_width) {
          compare("lse", found.lse, expected.lse);
          compare("out", found.out, expected.out, 2e-3);
          compare("dq", found.dq, expected.dq, 5e-3);
          compare("dk", found.dk, expected.dk, 5e-3);
          compare("dv", found.dv, expected.dv, 2e-3);
          if (c.table) compare("dtable", found.dtable, expected.dtable, 2e-3);
        }
      }
    }
  }
}

// Threads take pieces in any order, and a resumed run may have another number of them.
BOOST_AUTO_TEST_CASE(gives_the_same_bits_however_it_is_shared_out) {
  const Inputs in({2, 4, 2, 300, 300, 32, 32, true, true, true});
  std::vector<const Bf16Table*> products = bf16_tables();
  products.push_back(nullptr);  // fp32
  for (const std::string& set : instruction_sets()) {
    for (const Bf16Table* bf16 : products) {
      const Results whole = by_kernels(table_for(set), in, 1, bf16);
      for (const std::int64_t parts : {2, 3, 7, 40}) {
        const Results shared = by_kernels(table_for(set), in, parts, bf16);
        BOOST_TEST_CONTEXT(set << " in " << parts << (bf16 != nullptr ? ", bf16" : "")) {
          for (const auto member :
               {&Results::out, &Results::lse, &Results::dq, &Results::dk, &Results::dv, &Results::dtable})
            BOOST_TEST((shared.*member == whole.*member));
        }
      }
    }
  }
}

// A diverging run has to be seen: NaN stays NaN, and nothing else of its sequence before it is touched.
BOOST_AUTO_TEST_CASE(what_is_not_a_number_is_not_hidden) {
  Inputs in({1, 1, 1, 300, 300, 16, 16, true, false, false});
  in.packed[280 * in.row + in.of.width] = std::numeric_limits<float>::quiet_NaN();  // key 280
  for (const std::string& set : instruction_sets()) {
    for (const Bf16Table* bf16 : {static_cast<const Bf16Table*>(nullptr), &plain_bf16_table("DEFAULT")}) {
      const Results found = by_kernels(table_for(set), in, 1, bf16);
      for (std::int64_t t = 0; t < 300; ++t) {
        BOOST_REQUIRE(std::isnan(found.lse[t]) == (t >= 280));
        BOOST_REQUIRE(std::isnan(found.out[t * 16]) == (t >= 280));
      }
    }
  }
}

// A window: a table may hide keys that are far away, whole blocks of keys too.
BOOST_AUTO_TEST_CASE(a_table_may_hide_distances) {
  Inputs in({1, 1, 1, 700, 700, 16, 16, true, false, false});
  for (std::int64_t d = 5; d < 700; ++d) in.table[d] = -std::numeric_limits<float>::infinity();
  for (Values* values : {&in.packed, &in.dout})  // so that bf16 rounds weights and slopes alone
    for (float& x : *values) x = c10::BFloat16(x);
  const Results expected = naive(in);
  for (const std::string& set : instruction_sets()) {
    const Results found = by_kernels(table_for(set), in, 1);
    compare("out", found.out, expected.out);
    compare("dq", found.dq, expected.dq);
    compare("dk", found.dk, expected.dk);
    compare("dv", found.dv, expected.dv);
    const Results rounded = by_kernels(table_for(set), in, 1, &plain_bf16_table("DEFAULT"));
    compare("lse", rounded.lse, expected.lse);
    compare("out", rounded.out, expected.out, 2e-3);
    compare("dq", rounded.dq, expected.dq, 5e-3);
    compare("dk", rounded.dk, expected.dk, 5e-3);
    compare("dv", rounded.dv, expected.dv, 2e-3);
  }
}

BOOST_AUTO_TEST_SUITE_END()
