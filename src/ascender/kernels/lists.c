/* Attention over index lists (flock scope), float32: forward. The backward is in
   lists_backward.c.

   A query attends only to the keys of its list, so a row is short: its quantities are kept in small
   arrays, one number per listed key, and backward recomputes them from the inputs. One task of
   forward is some queries with all their heads; heads that share neighbours find them once. One
   task of backward is one key head with the query heads that share it, so gradients of keys are
   added without locks.

     base = q.k/sqrt(d)     ra = k~.u      phi = ws max(0, cos - delta)     rc = -|z_j - c|^2/tau
     S = (base + fa ra~ - fs phi~ + fc rc~ + omega_aff g + other)/tau_score,    x~: standardised

   A gradient dL/dx is written dx; G is dL/d(the sum before tau_score). */
#include "visible.h"

#define OAFF NUMBERS /* beside the numbers of visible.h */
#define LIST_NUMBERS (NUMBERS + 1)

typedef struct {
  int B, H, G, N, M, L, d, e, dz, da, tied, term, standardise, local, align, sep, coh, causal, cross;
  View q, k, unit, v, zq, zk, hq, hk, other, out; /* k, unit, v: G heads; other: (B, H, N, L) */
  View g, dq, dk, dunit, dv, dzq, dzk, dhq, dhk, dother; /* dunit: scratch of the same shape as k */
  const int64_t *list; long list_b, list_h, list_n;
  const unsigned char *near; long near_b, near_h, near_n; /* given neighbours, or NULL: ranked */
  const int *p, *j, *sizes; /* sizes: (H) */
  const float *numbers, *bias; /* (H, LIST_NUMBERS); by distance, or NULL */
  float *dnumbers, *dbias;     /* (B, H, LIST_NUMBERS), (B, H, 2 MAX_DISTANCE + 1) */
} ListArgs;

typedef struct { /* of one row; arrays of n, padded to VL: key with the first, others with 0 */
  int n, own, count; /* own: the place of the query itself, -1 where it is not listed */
  int *key, *far, *near, *some; /* near: -1 or 0; some: the keys where it is -1 */
  float *base, *dot, *g, *cos, *rank, *d2, *ws, *wc, *phi, *ra, *rc, *xa, *xs, *xc, *S, *A;
  float *G, *dx, *dd2, *dcos, *de, *tmp;
  float *s, *u, *c, *du, *dc; /* of a width */
  float len, var_a, gamma_a, isa, rho, eta, iss, var_c, gamma_c, isc, fa, fs, fc;
} ListRow;

#define EACH(t, n) for (int t = 0; t < (n); t += VL)
#define X(p) (*(const vf_any *)(p))
INLINE vi imin(vi a, vi b) { return (a & (a < b)) | (b & (a >= b)); }
INLINE vf within(vf x, int t, int n) { return keep(x, LANE < seti(n - t)); } /* 0 past the end */

static float dot1(const float *a, const float *b, int w) {
  vf s = {0};
  int c = 0;
  for (; c + VL <= w; c += VL) s += X(a + c) * X(b + c);
  float t = sum(s);
  for (; c < w; c++) t += a[c] * b[c];
  return t;
}
static void axpy(float f, const float *x, float *y, int w) {
  int c = 0;
  for (; c + VL <= w; c += VL) *(vf_any *)(y + c) += f * X(x + c);
  for (; c < w; c++) y[c] += f * x[c];
}
/* sum of x y, of padded arrays */
static float inner(const float *x, const float *y, int n) {
  vf s = {0};
  EACH(t, n) s += within(L(x + t) * L(y + t), t, n);
  return sum(s);
}
/* to[t] = the sum over c of OF(x[c], y_key[t][c]) */
#define OVER_KEYS(NAME, OF)                                                                       \
  static void NAME(const ListRow *r, const float *x, const float *y, long stride, int w,          \
                   float *to) {                                                                   \
    EACH(t, r->n) {                                                                               \
      const float *at[VL];                                                                        \
      vf a[VL];                                                                                   \
      for (int i = 0; i < VL; i++) at[i] = y + r->key[t + i] * stride, a[i] = set(0);              \
      int c = 0;                                                                                  \
      for (; c + VL <= w; c += VL) {                                                              \
        vf b = X(x + c);                                                                          \
        UNROLL for (int i = 0; i < VL; i++) a[i] += OF(b, X(at[i] + c));                           \
      }                                                                                           \
      vf s = sums(a);                                                                             \
      for (; c < w; c++) for (int i = 0; i < VL; i++) s[i] += OF(x[c], at[i][c]);                  \
      S(to + t) = s;                                                                              \
    }                                                                                             \
  }
#define TIMES(x, y) ((x) * (y))
#define APART2(x, y) (((x) - (y)) * ((x) - (y)))
OVER_KEYS(dots, TIMES)
OVER_KEYS(squares, APART2)
/* to = the sum of p[t] y_key[t] */
static void mix_keys(int n, const int *key, const float *p, const float *y, long stride, int w, float *to) {
  int c = 0;
  for (; c + 4 * VL <= w; c += 4 * VL) {
    vf s[4] = {{0}};
    for (int t = 0; t < n; t++) {
      const float *at = y + key[t] * stride + c;
      UNROLL for (int i = 0; i < 4; i++) s[i] += p[t] * X(at + i * VL);
    }
    for (int i = 0; i < 4; i++) *(vf_any *)(to + c + i * VL) = s[i];
  }
  for (; c + VL <= w; c += VL) {
    vf s = {0};
    for (int t = 0; t < n; t++) s += p[t] * X(y + key[t] * stride + c);
    *(vf_any *)(to + c) = s;
  }
  for (; c < w; c++) {
    to[c] = 0;
    for (int t = 0; t < n; t++) to[c] += p[t] * y[key[t] * stride + c];
  }
}
/* x~ of a row, or x where it is not standardised; returns 1/sqrt(var + eps) */
static float standard(int on, const float *x, int n, float *to) {
  if (!on) {
    EACH(t, n) S(to + t) = within(L(x + t), t, n);
    return 1;
  }
  vf s = {0};
  EACH(t, n) s += within(L(x + t), t, n);
  float mean = sum(s) / n;
  s = set(0);
  EACH(t, n) {
    vf y = within(L(x + t) - mean, t, n);
    S(to + t) = y;
    s += y * y;
  }
  float is = 1 / sqrtf(sum(s) / n + EPS);
  EACH(t, n) S(to + t) = L(to + t) * is;
  return is;
}
static void exps(float *x, int n) { /* in place; x <= 0 */
  EACH(t, n) S(x + t) = within(vexp(L(x + t)), t, n);
}
static void add(float f, const float *x, float *to, int n) {
  EACH(t, n) S(to + t) = L(to + t) + f * L(x + t);
}
static float gate(float y) { return 1 / (1 + expf(-y)); }

static void row_room(const ListArgs *a, ListRow *r, Scratch *s) {
  int n = round_up(a->L, 16) + 16, w = a->d;
  if (a->e > w) w = a->e;
  if (a->dz > w) w = a->dz;
  if (a->da > w) w = a->da;
  w = round_up(w, 16) + 16;
  r->some = take(s, n);
  float **arrays[] = {&r->base, &r->dot, &r->rank, &r->d2, &r->ws, &r->wc, &r->phi,
                      &r->ra, &r->rc, &r->xa, &r->xs, &r->xc, &r->S, &r->A, &r->G, &r->dx, &r->dd2,
                      &r->dcos, &r->de, &r->tmp};
  for (unsigned m = 0; m < sizeof arrays / sizeof *arrays; m++) {
    *arrays[m] = take(s, n);
    memset(*arrays[m], 0, n * 4);
  }
  r->s = take(s, w), r->u = take(s, w), r->c = take(s, w), r->du = take(s, w), r->dc = take(s, w);
}
/* rows [1, many) have the room of the first, besides what heads may share */
static void rows_room(const ListArgs *a, ListRow *r, int many, Scratch *s) {
  int n = round_up(a->L, 16) + 16;
  row_room(a, r, s);
  for (int i = 0; i < many; i++) {
    if (i) r[i] = r[0];
    r[i].key = take(s, n), r[i].far = take(s, n), r[i].near = take(s, n);
    r[i].g = take(s, n), r[i].cos = take(s, n);
    memset(r[i].g, 0, n * 4), memset(r[i].cos, 0, n * 4);
  }
}
static size_t rows_size(const ListArgs *a, int many) {
  size_t n = round_up(a->L, 16) + 32, w = a->d + a->e + a->dz + a->da + 64;
  return 4 * ((22 + 5 * many) * n + 5 * w + 1024);
}
/* N_k(i): the k listed keys besides itself that rank highest, of equal ones the earliest */
static void nearest_of(const ListArgs *a, ListRow *r, int h) {
  const float *x = a->tied ? r->cos : r->g;
  int k = a->sizes[h], n = r->n, mates = n - (r->own >= 0), all = mates <= k;
  vi own = seti(r->own), old = seti(OLD);
  EACH(t, n) {
    vi place = LANE + seti(t), mate = (place != own) & (place < seti(n));
    vf f = L(x + t);
    if (a->causal) {
      vi age = LI(r->far + t);
      age = imin(age & (age > seti(0)), old);
      vf size = a->tied ? set(1) : vmax(set(1), vmax(f, -f));
      f -= TIE * size * __builtin_convertvector(age, vf);
    }
    S(r->rank + t) = choose(mate, f, set(-INFINITY));
    *(vi *)(r->near + t) = all ? mate : seti(0);
  }
  r->count = all ? mates : k;
  if (all) return;
  float edge;
  if (n <= 8 * VL) { /* how many rank above each */
    int most = 0;
    EACH(t, n) {
      vi above = seti(0);
      vf f = L(r->rank + t);
      for (int s = 0; s < n; s++) above -= set(r->rank[s]) > f;
      vi near = (above < seti(k)) & (f > set(-INFINITY));
      *(vi *)(r->near + t) = near;
      most += __builtin_popcount(bits(near));
    }
    if (most == k) return;
  }
  memcpy(r->tmp, r->rank, n * 4);
  edge = kth_of(r->tmp, n, k);
  int above = 0;
  for (int t = 0; t < n; t++) above += r->rank[t] > edge;
  for (int t = 0, room = k - above; t < n; t++)
    r->near[t] = -(r->rank[t] > edge || (r->rank[t] == edge && room-- > 0));
}
/* the keys of a row: their places, distances, given neighbours */
static void row_keys(const ListArgs *a, ListRow *r, int b, int h, int i) {
  const int64_t *list = a->list + b * a->list_b + h * a->list_h + i * a->list_n;
  const unsigned char *near =
      a->near ? a->near + b * a->near_b + h * a->near_h + i * a->near_n : NULL;
  int n = 0;
  r->own = -1, r->count = 0;
  for (int t = 0; t < a->L; t++) {
    if (list[t] < 0) continue;
    r->key[n] = list[t];
    r->far[n] = a->cross ? 1 : a->p[i] - a->j[list[t]];
    if (!a->cross && r->far[n] == 0) r->own = n;
    r->near[n] = near ? -near[t] : 0;
    r->count -= r->near[n++];
  }
  r->n = n;
  for (int t = n; t < round_up(n, VL); t++) r->key[t] = r->key[0], r->far[t] = r->near[t] = 0;
}
/* S = the base score and `other` */
static void row_scores(const ListArgs *a, ListRow *r, int b, int h, int i, int kv) {
  const float *q = a->q.p + b * a->q.b + h * a->q.h + i * a->q.n;
  dots(r, q, a->k.p + b * a->k.b + kv * a->k.h, a->k.n, a->d, r->base);
  float scale = 1 / sqrtf(a->d);
  EACH(t, r->n) S(r->S + t) = L(r->base + t) * scale;
  if (!a->other.p) return;
  const int64_t *list = a->list + b * a->list_b + h * a->list_h + i * a->list_n;
  const float *other = a->other.p + b * a->other.b + h * a->other.h + i * a->other.n;
  for (int t = 0, m = 0; t < a->L; t++)
    if (list[t] >= 0) r->S[m++] += other[t];
}
static void row_affinity(const ListArgs *a, ListRow *r, int b, int h, int i, const float *ihk) {
  const float *hq = a->hq.p + b * a->hq.b + h * a->hq.h + i * a->hq.n;
  dots(r, hq, a->hk.p + b * a->hk.b + h * a->hk.h, a->hk.n, a->da, r->dot);
  float length = sqrtf(dot1(hq, hq, a->da)), ihq = 1 / (length < FLOOR ? FLOOR : length);
  float root = 1 / sqrtf(a->da);
  vi most = seti(MAX_DISTANCE);
  EACH(t, r->n) {
    vf x = L(r->dot + t), g = x * root;
    S(r->cos + t) = x * ihq * gather(ihk, LI(r->key + t));
    if (a->bias) {
      vi far = LI(r->far + t);
      far = -imin(-imin(far, most), most);
      g += gather(a->bias, far + most);
    }
    S(r->g + t) = g;
  }
}
static void row_alignment(const ListArgs *a, ListRow *r, const float *keys, long ks, const float *w,
                          const float *inv) {
  int n = r->n, some = 0;
  for (int t = 0; t < n; t++)
    if (r->near[t]) r->some[some] = r->key[t], r->dx[some++] = inv[r->key[t]];
  mix_keys(some, r->some, r->dx, keys, ks, a->d, r->s);
  r->len = sqrtf(dot1(r->s, r->s, a->d));
  float f = 1 / (r->len < FLOOR ? FLOOR : r->len), mean = r->len / (r->count ? r->count : 1);
  for (int c = 0; c < a->d; c++) r->u[c] = r->s[c] * f;
  r->var_a = 1 - mean * mean;
  r->gamma_a = gate(-w[AA] * r->var_a);
  dots(r, r->u, keys, ks, a->d, r->ra);
  EACH(t, n) S(r->ra + t) = L(r->ra + t) * gather(inv, LI(r->key + t));
  r->isa = standard(a->standardise, r->ra, n, r->xa);
  r->fa = w[OA] * r->gamma_a;
  add(r->fa, r->xa, r->S, n);
}
INLINE vi crowd(const ListArgs *a, const ListRow *r, int t) { /* of rho: P(i), or N_k(i) */
  vi place = LANE + seti(t);
  vi near = LI(r->near + t), others = (place != seti(r->own)) & (place < seti(r->n));
  return a->local ? near : others;
}
INLINE vi member(const ListArgs *a, const ListRow *r, int t) { /* of the centre */
  vi place = LANE + seti(t), near = LI(r->near + t) | (place == seti(r->own));
  return (place < seti(r->n)) & (a->local ? near : seti(-1));
}
static void row_separation(const ListArgs *a, ListRow *r, const float *w) {
  int n = r->n;
  float t2 = -1 / (w[TS] * w[TS]);
  vf rho = {0};
  EACH(t, n) S(r->ws + t) = L(r->d2 + t) * t2;
  exps(r->ws, n);
  EACH(t, n) {
    vf ws = L(r->ws + t), over = L(r->cos + t) - w[DELTA];
    rho += keep(ws, crowd(a, r, t));
    S(r->phi + t) = keep(-ws * over, LI(r->near + t) & (over > 0));
  }
  r->rho = sum(rho);
  r->eta = r->rho / w[KAPPA] < 1 ? r->rho / w[KAPPA] : 1;
  r->iss = standard(a->standardise, r->phi, n, r->xs);
  r->fs = w[OS] * r->eta;
  add(r->fs, r->xs, r->S, n);
}
static void row_cohesion(const ListArgs *a, ListRow *r, const float *zk, const float *w) {
  int n = r->n;
  vf least = set(INFINITY), mass = {0};
  float low = INFINITY, t2 = -1 / (w[TC] * w[TC]);
  EACH(t, n) least = vmin(least, choose(member(a, r, t), L(r->d2 + t), set(INFINITY)));
  for (int l = 0; l < VL; l++) low = least[l] < low ? least[l] : low;
  if (low == INFINITY) low = 0;
  EACH(t, n) {
    vf p = keep(vexp(vmin((L(r->d2 + t) - low) * t2, set(0))), member(a, r, t));
    S(r->wc + t) = p;
    mass += p;
  }
  float total = sum(mass);
  EACH(t, n) S(r->wc + t) = L(r->wc + t) * (total ? 1 / total : 0);
  mix_keys(n, r->key, r->wc, zk, a->zk.n, a->dz, r->c);
  squares(r, r->c, zk, a->zk.n, a->dz, r->rc);
  r->var_c = inner(r->wc, r->rc, n);
  EACH(t, n) S(r->rc + t) = L(r->rc + t) * (-1 / w[TC]);
  r->gamma_c = total ? gate(-w[AC] * r->var_c) : 0;
  r->isc = standard(a->standardise, r->rc, n, r->xc);
  r->fc = w[OC] * r->gamma_c;
  add(r->fc, r->xc, r->S, n);
}
/* what the heads of a row may share, by stride 0: its list, affinities and neighbours */
static int heads_share(const ListArgs *a) {
  for (int h = 1; h < a->H; h++)
    if (a->sizes[h] != a->sizes[0]) return 0;
  return !a->list_h && !a->hq.h && !a->hk.h && !(a->near && a->near_h);
}
static void row_neighbours(const ListArgs *a, ListRow *r, int b, int h, int i, const float *ihk) {
  int ranks = !a->near && (a->align || a->sep || (a->local && a->coh));
  row_keys(a, r, b, h, i);
  if (!r->n) return;
  if (a->term || a->sep || ranks) row_affinity(a, r, b, h, i, ihk);
  if (ranks) nearest_of(a, r, h);
}
/* everything else of a row up to its weights */
static void row_weights(const ListArgs *a, ListRow *r, int b, int h, int i, const float *inv) {
  const float *w = a->numbers + h * LIST_NUMBERS;
  int n = r->n, kv = h / (a->H / a->G);
  const float *k = a->k.p + b * a->k.b + kv * a->k.h;
  const float *zk = a->zk.p + b * a->zk.b + h * a->zk.h;
  row_scores(a, r, b, h, i, kv);
  if (a->term) add(w[OAFF], r->g, r->S, n);
  if (a->align && a->unit.p)
    row_alignment(a, r, a->unit.p + b * a->unit.b + kv * a->unit.h, a->unit.n, w, inv);
  else if (a->align) row_alignment(a, r, k, a->k.n, w, inv);
  if (a->sep || a->coh)
    squares(r, a->zq.p + b * a->zq.b + h * a->zq.h + i * a->zq.n, zk, a->zk.n, a->dz, r->d2);
  if (a->sep) row_separation(a, r, w);
  if (a->coh) row_cohesion(a, r, zk, w);
  vf most = set(-INFINITY);
  float top = -INFINITY, tau = 1 / w[TAU];
  EACH(t, n) {
    vf s = L(r->S + t) * tau;
    S(r->S + t) = s;
    most = vmax(most, choose(LANE < seti(n - t), s, set(-INFINITY)));
  }
  for (int l = 0; l < VL; l++) top = most[l] > top ? most[l] : top;
  EACH(t, n) S(r->A + t) = L(r->S + t) - top;
  exps(r->A, n);
  vf mass = {0};
  EACH(t, n) mass += L(r->A + t);
  float norm = 1 / sum(mass);
  EACH(t, n) S(r->A + t) = L(r->A + t) * norm;
}
/* 1/|x_j| of the keys */
static void inverse_lengths(const float *x, long stride, int M, int w, float *to) {
  for (int m = 0; m < M; m++) {
    float length = sqrtf(dot1(x + m * stride, x + m * stride, w));
    to[m] = 1 / (length < FLOOR ? FLOOR : length);
  }
}
static void key_lengths(const ListArgs *a, int b, int kv, float *inv) {
  if (a->unit.p) for (int m = 0; m < a->M; m++) inv[m] = 1;
  else if (a->align) inverse_lengths(a->k.p + b * a->k.b + kv * a->k.h, a->k.n, a->M, a->d, inv);
}
static void affinity_lengths(const ListArgs *a, int b, int h, float *ihk) {
  inverse_lengths(a->hk.p + b * a->hk.b + h * a->hk.h, a->hk.n, a->M, a->da, ihk);
}
#define SHARING 32 /* rows whose neighbours are kept while the heads take turns */
/* queries of one task, all heads: so many that the lengths of the keys cost little beside them */
static int task_rows(const ListArgs *a) { return a->N < 16 * 64 ? 64 : (a->N + 15) / 16; }
int asc_list_tasks(const ListArgs *a) { return a->B * ((a->N + task_rows(a) - 1) / task_rows(a)); }
static int list_forward_task(const ListArgs *a, int task) {
  int rows = task_rows(a), chunks = (a->N + rows - 1) / rows, b = task / chunks;
  int first = task % chunks * rows, end = first + rows < a->N ? first + rows : a->N;
  int shared = heads_share(a);
  size_t M = round_up(a->M, 16);
  Scratch c = scratch(rows_size(a, SHARING) + 4 * (M * (a->G + a->H) + 64));
  if (!c.at) return 0;
  ListRow r[SHARING];
  float *inv = take(&c, M * a->G), *ihk = take(&c, M * a->H);
  rows_room(a, r, SHARING, &c);
  for (int kv = 0; kv < a->G; kv++) key_lengths(a, b, kv, inv + kv * M);
  for (int h = 0; h < (a->hk.h ? a->H : 1); h++) affinity_lengths(a, b, h, ihk + h * M);
  for (int i0 = first; i0 < end; i0 += SHARING)
    for (int h = 0; h < a->H; h++) {
      int kv = h / (a->H / a->G), some = end - i0 < SHARING ? end - i0 : SHARING;
      const float *v = a->v.p + b * a->v.b + kv * a->v.h;
      float *out = a->out.p + b * a->out.b + h * a->out.h + i0 * a->out.n;
      for (int i = 0; i < some; i++) {
        if (!h || !shared) row_neighbours(a, r + i, b, h, i0 + i, ihk + (a->hk.h ? h * M : 0));
        if (r[i].n) row_weights(a, r + i, b, h, i0 + i, inv + kv * M);
        mix_keys(r[i].n, r[i].key, r[i].A, v, a->v.n, a->e, out + i * a->out.n);
      }
    }
  return 1;
}
TASKS(asc_list_forward, ListArgs, list_forward_task(a, i))
