#include "encodings/content/token_sums.h"

namespace pe::encodings {

Tensor earlier_rows(const Span& span, const Tensor& x, std::int64_t back) {
  const std::int64_t length = x.size(1);
  if (back == 0) return x;
  if (back >= length) return at::zeros_like(x);
  const Tensor earlier = at::constant_pad_nd(x.narrow(1, 0, length - back), {0, 0, back, 0});
  if (!span.doc_start.defined()) return earlier;
  const Tensor rows = at::arange(length, span.doc_start.options());
  Tensor same = (rows - back).ge(span.doc_start);  // [S] or [B,S]
  if (same.dim() == 1) same = same.unsqueeze(0);
  return earlier.masked_fill(same.logical_not().unsqueeze(-1), 0.0);
}

Tensor causal_convolution(const Span& span, const Tensor& x, const Tensor& taps) {
  const std::int64_t length = x.size(1), count = taps.size(1);
  Tensor sum = x * taps.select(1, count - 1);
  for (std::int64_t back = 1; back < std::min(count, length); ++back) {
    sum = sum + earlier_rows(span, x, back) * taps.select(1, count - 1 - back);
  }
  return sum;
}

Tensor running_total(const Span& span, const Tensor& x) {
  const Tensor total = x.cumsum(1);
  if (!span.doc_start.defined()) return total;
  const Tensor before = at::constant_pad_nd(total, {0, 0, 1, 0});  // entry t: up to row t − 1
  Tensor start = span.doc_start;
  if (start.dim() == 1) start = start.unsqueeze(0);
  start = start.expand({x.size(0), -1}).unsqueeze(-1).expand({-1, -1, x.size(2)});
  return total - before.gather(1, start);
}

}  // namespace pe::encodings
