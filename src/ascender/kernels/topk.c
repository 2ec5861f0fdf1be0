/* N_k(i): the k members of P(i) with the largest products x_i.y_j, as lists. */
#include "visible.h"

#define TOP_ROWS 512 /* queries of one task */
typedef struct {
  int B, heads, w, K, bounded;
  Visible see;
  View x, y;
  const int *sizes; /* (heads) */
  int64_t *idx;     /* (B, heads, N, K), -1 = none */
  const float *bias; /* added to the products by distance, or NULL */
} Top;

int asc_top_tasks(const Top *a) {
  return a->B * a->heads * ((a->see.N + TOP_ROWS - 1) / TOP_ROWS);
}
static int top_task(const Top *a, int task) {
  const Visible *s = &a->see;
  int chunks = (s->N + TOP_ROWS - 1) / TOP_ROWS, first = task % chunks * TOP_ROWS;
  int h = task / chunks % a->heads, b = task / chunks / a->heads;
  int end = first + TOP_ROWS < s->N ? first + TOP_ROWS : s->N, w = padded(a->w);
  int K = a->K, count[VL];
  size_t n = top_width(s), m = padded(s->M), rows = padded(TOP_ROWS);
  Scratch c = scratch(4 * (m * w + rows * w + VL * w + 3 * n * VL + 2 * (n + VL) + VL * K + 1024));
  if (!c.at) return 0;
  float *y = take(&c, m * w), *x = take(&c, rows * w), *xt = take(&c, VL * w);
  TopScratch t = {take(&c, n * VL), take(&c, n * VL), take(&c, n * VL), take(&c, n + VL),
                  take(&c, n + VL), a->bias};
  int *idx = take(&c, VL * K);
  View keys = a->y, queries = a->x;
  keys.p += b * keys.b + h * keys.h;
  queries.p += b * queries.b + h * queries.h + first * queries.n;
  keys.b = keys.h = queries.b = queries.h = 0;
  pack(&keys, 0, 0, m, s->M, a->w, 1, y);
  pack(&queries, 0, 0, rows, end - first, a->w, 1, x);
  int64_t *out = a->idx + ((int64_t)(b * a->heads + h) * s->N + first) * K;
  for (int i0 = first; i0 < end; i0 += VL) {
    transpose(VL, w, x + (long)(i0 - first) * w, w, xt, VL);
    top_block(s, b, h, i0, xt, y, w, NULL, 0, a->sizes[h], K, a->bounded, &t, idx, NULL,
              count);
    for (int r = 0; r < VL && i0 + r < end; r++)
      for (int k = 0; k < K; k++) *out++ = idx[r * K + k];
  }
  return 1;
}
TASKS(asc_top, Top, top_task(a, i))
