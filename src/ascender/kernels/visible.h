/* Which keys a query sees (core/visibility.py), and the k largest scores of a row.

   Positions are p (queries) and j (keys, ascending). causal: j <= p. window: |p - j| <= window, or
   j < n_global, or p < n_global. beyond (top-k only): |p - j| > beyond and j >= n_global. mask:
   bytes, (b, h, n) strides, 0 where a row has one for all. */
#ifndef ASC_VISIBLE_H
#define ASC_VISIBLE_H
#include "vectors.h"

typedef struct {
  int N, M, causal, window, n_global, cross, beyond; /* window, beyond: -1 where there is none */
  const int *p, *j;
  const unsigned char *mask;
  long mask_b, mask_h, mask_n;
} Visible;

typedef struct { float *p; long b, h, n; } View; /* strides in floats; the last axis is contiguous */

/* the learned numbers of a head, in the order of core/backends/native.py */
enum { OA, OS, OC, AA, AC, TS, TC, DELTA, KAPPA, TAU, NUMBERS };

static int padded(int x) { return round_up(x, 16); }
/* rows of a tensor into n rows of padded(width), times scale; where a number is not finite */
static vi pack(const View *t, int b, int h, int n, int rows, int width, float scale, float *x) {
  int w = padded(width);
  const float *p = t->p + b * t->b + h * t->h;
  vf odd = {0}; /* x - x is NaN where x is not finite */
  for (int i = 0; i < rows; i++) {
    const float *from = p + i * t->n;
    float *to = x + (long)i * w;
    int c = 0;
    for (int ahead = 0; ahead < width; ahead += 16) __builtin_prefetch(from + 12 * t->n + ahead);
    for (; c + VL <= width; c += VL) {
      vf y = *(const vf_any *)(from + c);
      odd += y - y;
      S(to + c) = y * scale;
    }
    if (c < w) {
      for (int r = c; r < w; r++) to[r] = r < width ? from[r] * scale : 0;
      for (; c < w; c += VL) odd += L(to + c) - L(to + c);
    }
  }
  memset(x + (long)rows * w, 0, (size_t)(n - rows) * w * 4);
  return odd != odd;
}

/* how many keys are at positions <= place */
static int upto(const Visible *s, int place) {
  int lo = 0, hi = s->M;
  while (lo < hi) {
    int mid = (lo + hi) / 2;
    if (s->j[mid] <= place) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}
/* the key at the position of query i, -1 where there is none */
static int own_key(const Visible *s, int i) {
  if (s->cross) return -1;
  int t = upto(s, s->p[i]) - 1;
  return t >= 0 && s->j[t] == s->p[i] ? t : -1;
}
/* keys [*from, *to) have all that queries i ... i + n - 1 see besides the first n_global */
static void reach(const Visible *s, int i, int n, int *from, int *to) {
  int first = s->p[i], last = s->p[i + n - 1];
  *from = 0;
  *to = s->causal ? upto(s, s->beyond < 0 ? last : last - s->beyond - 1) : s->M;
  if (s->window < 0 || first < s->n_global) return;
  *from = upto(s, first - s->window - 1);
  int end = upto(s, last + s->window);
  if (end < *to) *to = end;
}
/* out[t] = -1 where query i sees key t, else 0, from lo to n (multiples of VL); how many it sees */
static int row_mask(const Visible *s, int b, int h, int i, int lo, int n, int *out) {
  int p = s->p[i];
  vi count = {0};
  const unsigned char *m =
      s->mask ? s->mask + b * s->mask_b + h * s->mask_h + i * s->mask_n : NULL;
  for (int t = lo; t < n; t += VL) {
    int left = s->M - t;
    vi seen = LANE < seti(left), j;
    if (left >= VL) j = LI_ANY(s->j + t);
    else for (int r = 0; r < VL; r++) j[r] = r < left ? s->j[t + r] : 0;
    if (s->causal) seen &= j <= seti(p);
    if (s->window >= 0 && p >= s->n_global) {
      vi far = p - j;
      seen &= ((far <= seti(s->window)) & (far >= seti(-s->window))) | (j < seti(s->n_global));
    }
    if (m) for (int r = 0; r < VL && r < left; r++) seen[r] = m[t + r] ? seen[r] : 0;
    *(vi *)(out + t) = seen;
    count -= seen;
  }
  int total = 0;
  for (int r = 0; r < VL; r++) total += count[r];
  return total;
}

/* ---- the k largest of each of VL columns ---- */
#define CE(i, j) { vf high = vmax(x##i, x##j); x##j = vmin(x##i, x##j); x##i = high; }
/* Batcher's odd-even merge sort of 16, largest first, and the merge of two sorted sixteens */
#define SORT16 CE(0,1) CE(2,3) CE(4,5) CE(6,7) CE(8,9) CE(10,11) CE(12,13) CE(14,15)\
    CE(0,2) CE(1,3) CE(4,6) CE(5,7) CE(8,10) CE(9,11) CE(12,14) CE(13,15)\
    CE(1,2) CE(5,6) CE(9,10) CE(13,14) CE(0,4) CE(1,5) CE(2,6) CE(3,7)\
    CE(8,12) CE(9,13) CE(10,14) CE(11,15) CE(2,4) CE(3,5) CE(10,12) CE(11,13)\
    CE(1,2) CE(3,4) CE(5,6) CE(9,10) CE(11,12) CE(13,14) CE(0,8) CE(1,9)\
    CE(2,10) CE(3,11) CE(4,12) CE(5,13) CE(6,14) CE(7,15) CE(4,8) CE(5,9)\
    CE(6,10) CE(7,11) CE(2,4) CE(3,5) CE(6,8) CE(7,9) CE(10,12) CE(11,13)\
    CE(1,2) CE(3,4) CE(5,6) CE(7,8) CE(9,10) CE(11,12) CE(13,14)
#define MERGE16 CE(0,8) CE(1,9) CE(2,10) CE(3,11) CE(4,12) CE(5,13) CE(6,14) CE(7,15)\
    CE(0,4) CE(1,5) CE(2,6) CE(3,7) CE(8,12) CE(9,13) CE(10,14) CE(11,15)\
    CE(0,2) CE(1,3) CE(4,6) CE(5,7) CE(8,10) CE(9,11) CE(12,14) CE(13,15)\
    CE(0,1) CE(2,3) CE(4,5) CE(6,7) CE(8,9) CE(10,11) CE(12,13) CE(14,15)
#define EACH16(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)
#define LOAD16(m) vf x##m = L(p + m * VL);
#define STORE16(m) S(p + m * VL) = x##m;
INLINE void merge16(float *p) { /* a bitonic sixteen, sorted */
  EACH16(LOAD16)
  MERGE16
  EACH16(STORE16)
}
#define SORTED 64 /* the most that are kept sorted: four sixteens */
/* x: (n, VL), n a multiple of 16; the k-th largest of each column, k <= SORTED */
APART vf kth_sorted(const float *x, int n, int k) {
  float top[SORTED * VL] ALIGNED, next[16 * VL] ALIGNED;
  int lists = (k + 15) / 16, have = 0;
  for (int t = 0; t < n; t += 16) {
    const float *p = x + t * VL;
    EACH16(LOAD16)
    if (have == lists) { /* skip what has nothing larger than the last of the best */
      vf last = L(top + (16 * lists - 1) * VL);
      vi any = x0 > last;
#define ANY(m) any |= x##m > last;
      EACH16(ANY)
      if (!bits(any)) continue;
    }
    SORT16
    float *to = have < lists ? top + 16 * have * VL : next;
#define KEEP(m) S(to + m * VL) = x##m;
    EACH16(KEEP)
    for (int l = 0; l < have; l++) { /* the larger half stays, the smaller goes on to the next */
      float *mine = top + 16 * l * VL;
      vf rest[16];
      for (int m = 0; m < 16; m++) rest[m] = L(to + m * VL);
      for (int m = 0; m < 16; m++) {
        vf a = L(mine + m * VL), b = rest[15 - m];
        S(mine + m * VL) = vmax(a, b);
        S(to + m * VL) = vmin(a, b);
      }
      merge16(mine);
      if (l + 1 < lists) merge16(to);
    }
    have += have < lists;
  }
  return k <= 16 * have ? L(top + (k - 1) * VL) : set(-INFINITY);
}
/* the k-th largest of n numbers, which are moved about */
static float kth_of(float *x, int n, int k) {
  int lo = 0, hi = n - 1;
  k--;
  while (lo < hi) {
    float a = x[lo], b = x[(lo + hi) / 2], c = x[hi];
    float pivot = a > b ? (b > c ? b : (a > c ? c : a)) : (a > c ? a : (b > c ? c : b));
    int i = lo, j = hi;
    while (i <= j) {
      while (x[i] > pivot) i++;
      while (x[j] < pivot) j--;
      if (i <= j) {
        float t = x[i];
        x[i++] = x[j];
        x[j--] = t;
      }
    }
    if (k <= j) hi = j;
    else if (k >= i) lo = i;
    else break;
  }
  return x[k];
}

#define TIE 1e-6f /* core/neighbours.py: among equals the most recent */
#define OLD 4096
typedef struct {
  float *raw, *rank, *row; /* (n, VL) twice, (VL, n) */
  int *key, *hit;          /* n + VL twice */
  const float *bias;       /* by distance p - j = -MAX_DISTANCE ... MAX_DISTANCE, or NULL */
} TopScratch;
#define MAX_DISTANCE 1024 /* core/affinity.py */
INLINE vf with_bias(vf x, vi far, const float *bias) {
  vi low = far > seti(-MAX_DISTANCE), d = (low & far) | (~low & seti(-MAX_DISTANCE));
  vi high = d < seti(MAX_DISTANCE);
  d = (high & d) | (~high & seti(MAX_DISTANCE));
  return x + gather(bias, d + MAX_DISTANCE);
}

/* x_i.y_j of a block for the keys that its rows may see: t->raw (n, VL), which keys: t->key. known:
   the products, where they are there already: (VL, M) in rows of ld, in place of xt and y */
static int top_products(const Visible *s, int i0, int rows, const float *xt, const float *y, int w,
                        const float *known, long ld, TopScratch *t) {
  int from, to, n = 0;
  reach(s, i0, rows, &from, &to);
  from &= ~15;
  int globals = s->window >= 0 && s->n_global ? upto(s, s->n_global - 1) : 0;
  if (globals > from) from = globals = 0;
  int part[2][2] = {{0, globals}, {from, to}};
  for (int g = 0; g < 2; g++) {
    int a = part[g][0], len = round_up(part[g][1] - a, 16);
    if (part[g][1] <= a) continue;
    float *raw = t->raw + (long)n * VL;
    if (known) transpose(VL, len, known + a, ld, raw, VL);
    else product(len, VL, w, y + (long)a * w, w, 1, xt, VL, raw, VL, 0);
    for (int m = 0; m < len; m++) t->key[n + m] = a + m;
    n += len;
  }
  return n;
}
/* what ranks the keys of causal attention */
INLINE vf aged(vf x, vi far, int bounded) {
  vf age = vmin(vmax(__builtin_convertvector(far, vf), set(0)), set(OLD)) * TIE;
  if (!bounded) age *= vmax(vmax(x, -x), set(1));
  return x - age;
}
/* what ranks the keys, -inf for keys outside P(i): (n, VL), in t->rank or in t->raw */
static float *top_ranks(const Visible *s, int b, int h, int i0, int rows, int n, int bounded,
                      TopScratch *t) {
  const unsigned char *mask = s->mask ? s->mask + b * s->mask_b + h * s->mask_h : NULL;
  vi p, row = LANE < seti(rows);
  for (int r = 0; r < VL; r++) p[r] = s->p[i0 + (r < rows ? r : 0)];
  if (!mask && s->window < 0 && !s->causal && !t->bias) { /* itself or the keys near it, the end */
    for (int r = 0; r < rows; r++) {
      int at = s->p[i0 + r], wide = s->beyond < 0 ? 0 : s->beyond;
      int end = s->cross && s->beyond < 0 ? 0 : upto(s, at + wide);
      for (int m = end - 1; m >= 0 && s->j[m] >= at - wide; m--) t->raw[(long)m * VL + r] = -INFINITY;
    }
    int first = s->beyond < 0 ? 0 : upto(s, s->n_global - 1);
    for (int m = 0; m < first * VL; m++) t->raw[m] = -INFINITY;
    for (int m = s->M * VL; m < n * VL; m++) t->raw[m] = -INFINITY;
    return t->raw;
  }
  if (!mask && s->window < 0 && s->beyond < 0 && !t->bias) {
    for (int m = 0; m < n; m++) {
      vf x = L(t->raw + m * VL);
      int real = t->key[m] < s->M;
      vi far = p - s->j[real ? t->key[m] : 0], seen = row & seti(-real);
      if (s->causal) seen &= far >= seti(0), x = aged(x, far, bounded);
      if (!s->cross) seen &= far != seti(0);
      S(t->rank + m * VL) = choose(seen, x, set(-INFINITY));
    }
    return t->rank;
  }
  for (int m = 0; m < n; m++) {
    int key = t->key[m];
    vf x = L(t->raw + m * VL);
    vi seen = row;
    if (key >= s->M || (mask && s->mask_n == 0 && !mask[key])) seen = seti(0);
    else {
      vi far = p - s->j[key];
      if (t->bias) x = with_bias(x, far, t->bias);
      if (s->causal) seen &= far >= seti(0), x = aged(x, far, bounded);
      if (!s->cross) seen &= far != seti(0);
      if (s->beyond >= 0)
        seen &= ((far > seti(s->beyond)) | (far < seti(-s->beyond))) & seti(-(s->j[key] >= s->n_global));
      if (s->window >= 0 && s->j[key] >= s->n_global)
        seen &= ((far <= seti(s->window)) & (far >= seti(-s->window))) | (p < seti(s->n_global));
      if (mask && s->mask_n)
        for (int r = 0; r < rows; r++) seen[r] = mask[(i0 + r) * s->mask_n + key] ? seen[r] : 0;
    }
    S(t->rank + m * VL) = choose(seen, x, set(-INFINITY));
  }
  return t->rank;
}
/* the places of the numbers >= edge (> where that is -inf); to has room for VL more */
static int places(const float *x, int n, float edge, int *to) {
  int found = 0;
  vf e = set(edge == -INFINITY ? -3.4e38f : edge);
  for (int m = 0; m < n; m += VL) {
    unsigned hit = bits(L(x + m) >= e);
#if defined(__AVX512F__)
    _mm512_storeu_si512(to + found, _mm512_maskz_compress_epi32(hit, (__m512i)(LANE + seti(m))));
    found += __builtin_popcount(hit);
#elif defined(__AVX2__) && defined(__BMI2__)
    uint64_t wide = _pdep_u64(hit, 0x0101010101010101u) * 0xff; /* a byte for each hit */
    uint64_t order = _pext_u64(0x0706050403020100u, wide);
    __m256i lanes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)order));
    _mm256_storeu_si256((__m256i *)(to + found), (__m256i)((vi)lanes + seti(m)));
    found += __builtin_popcount(hit);
#else
    for (; hit; hit &= hit - 1) to[found++] = m + __builtin_ctz(hit);
#endif
  }
  return found;
}
/* In long rows most keys are far below the k-th largest. The k-th largest of the maxima of GROUPS
   groups is no larger than it (k groups have a key that large), and costs one pass. */
#define GROUPS 256
APART vf group_bound(const float *rank, int n, int k) {
  float top[GROUPS * VL] ALIGNED;
  memcpy(top, rank, sizeof top);
  for (int m = GROUPS; m < n; m += GROUPS) {
    int some = n - m < GROUPS ? n - m : GROUPS;
    for (int g = 0; g < some * VL; g += VL) S(top + g) = vmax(L(top + g), L(rank + m * (long)VL + g));
  }
  return kth_sorted(top, GROUPS, k);
}
/* the places of the numbers >= bound of each column, in to (VL, n); n is a multiple of 16 */
APART void top_candidates(const float *rank, int n, vf bound, int *to, int *count) {
  bound = vmax(bound, set(-3.4e38f));
  memset(count, 0, VL * sizeof *count);
  for (int m = 0; m < n; m += 4) {
    const float *x = rank + (long)m * VL;
    vi hit[4];
    UNROLL for (int i = 0; i < 4; i++) hit[i] = L(x + i * VL) >= bound;
    if (!bits(hit[0] | hit[1] | hit[2] | hit[3])) continue;
    for (int i = 0; i < 4; i++)
      for (unsigned found = bits(hit[i]); found; found &= found - 1) {
        int r = __builtin_ctz(found);
        to[(long)r * n + count[r]++] = m + i;
      }
  }
}
/* the k of some places whose numbers (VL apart) are largest, of equal ones the earliest */
static int without_ties(const float *rank, int *hit, int found, int k, float *x) {
  for (int m = 0; m < found; m++) x[m] = rank[(long)hit[m] * VL];
  float edge = kth_of(x, found, k);
  int above = 0, at = 0;
  for (int m = 0; m < found; m++) above += rank[(long)hit[m] * VL] > edge;
  for (int m = 0, room = k - above; m < found; m++) {
    float y = rank[(long)hit[m] * VL];
    if (y > edge || (y == edge && room-- > 0)) hit[at++] = hit[m];
  }
  return at;
}
/* For the VL queries from i0 on: the k members of P(i) with the largest x_i.y_j, of those equal at
   the edge the earliest. xt: the queries as (w, VL); y: keys (M, w), with 15 more rows that may be
   read. known, ld: the products instead, as in top_products. idx, val: (VL, K), idx padded with -1;
   val: the product (may be NULL). bounded: no product is above 1. count[r]: how many. */
APART void top_block(const Visible *s, int b, int h, int i0, const float *xt, const float *y, int w,
                     const float *known, long ld, int k, int K, int bounded, TopScratch *t, int *idx,
                     float *val, int *count) {
  int rows = s->N - i0 < VL ? s->N - i0 : VL;
  int n = top_products(s, i0, rows, xt, y, w, known, ld, t);
  const float *rank = top_ranks(s, b, h, i0, rows, n, bounded, t);
  int sift = k && k <= SORTED && n >= 4 * GROUPS;
  vf edge = set(k ? -INFINITY : INFINITY);
  if (sift) top_candidates(rank, n, group_bound(rank, n, k), (int *)t->row, count);
  else {
    if (k && k < n && k <= SORTED) edge = kth_sorted(rank, n, k);
    transpose(n, VL, rank, VL, t->row, n);
    if (k < n && k > SORTED)
      for (int r = 0; r < rows; r++) {
        memcpy(t->hit, t->row + (long)r * n, n * 4);
        edge[r] = kth_of((float *)t->hit, n, k);
      }
  }
  for (int r = 0; r < VL; r++) {
    float *row = t->row + (long)r * n; /* once sifted, the places; else the numbers */
    int *hit = sift ? (int *)row : t->hit;
    int found = sift ? count[r] : places(row, n, edge[r], hit);
    if (found > k) found = without_ties(rank + r, hit, found, k, sift ? (float *)t->hit : row);
    for (int m = 0; m < found; m++) idx[r * K + m] = t->key[hit[m]];
    if (val) for (int m = 0; m < found; m++) val[r * K + m] = t->raw[(long)hit[m] * VL + r];
    for (int m = found; m < K; m++) idx[r * K + m] = -1;
    if (val) for (int m = found; m < K; m++) val[r * K + m] = 0;
    count[r] = found;
  }
}
/* the most keys that top_block looks at */
static int top_width(const Visible *s) { return round_up(s->M, 16) + 32; }
#endif
