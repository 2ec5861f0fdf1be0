/* Attention over index lists (flock scope), float32, forward and backward.

   A query meets the keys of its list only, so a row is short: everything of it is kept in small
   arrays of n numbers, one a listed key, and backward makes it again from the inputs. One task is
   one sequence and one head of the keys, with the query heads that share it: gradients of keys are
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

typedef struct { /* of one row; arrays of n, padded */
  int n, own, count, width; /* own: the place of the query itself, -1 where it is not listed */
  int *key, *far;
  float *base, *dot, *g, *cos, *rank, *d2, *ws, *wc, *phi, *ra, *rc, *xa, *xs, *xc, *S, *A;
  float *G, *dx, *dd2, *dcos, *tmp;
  unsigned char *near;
  float *s, *u, *c, *du, *dc; /* of a width */
  float len, var_a, gamma_a, isa, rho, eta, iss, var_c, gamma_c, isc, fa, fs, fc;
} ListRow;

static float dot1(const float *a, const float *b, int w) {
  vf s = {0};
  int c = 0;
  for (; c + VL <= w; c += VL) s += *(const vf_any *)(a + c) * *(const vf_any *)(b + c);
  float t = sum(s);
  for (; c < w; c++) t += a[c] * b[c];
  return t;
}
static void axpy(float f, const float *x, float *y, int w) {
  int c = 0;
  for (; c + VL <= w; c += VL) *(vf_any *)(y + c) += f * *(const vf_any *)(x + c);
  for (; c < w; c++) y[c] += f * x[c];
}
/* to[t] = x.y_key[t] for the keys of a row */
static void dots(const ListRow *r, const float *x, const float *y, long stride, int w, float *to) {
  for (int t = 0; t < r->n; t += VL) {
    const float *at[VL];
    vf a[VL];
    for (int i = 0; i < VL; i++) {
      at[i] = y + (long)r->key[t + i < r->n ? t + i : t] * stride;
      a[i] = set(0);
    }
    int c = 0;
    for (; c + VL <= w; c += VL) {
      vf b = *(const vf_any *)(x + c);
      UNROLL for (int i = 0; i < VL; i++) a[i] += *(const vf_any *)(at[i] + c) * b;
    }
    vf s = sums(a);
    for (; c < w; c++) for (int i = 0; i < VL; i++) s[i] += x[c] * at[i][c];
    S(to + t) = s;
  }
}
/* x~ of a row, or x where it is not standardised; returns 1/sqrt(var + eps) */
static float standard(int on, const float *x, int n, float *to) {
  if (!on) {
    memcpy(to, x, n * 4);
    return 1;
  }
  float mean = total(x, n) / n, var = 0;
  for (int t = 0; t < n; t++) var += (x[t] - mean) * (x[t] - mean);
  float is = 1 / sqrtf(var / n + EPS);
  for (int t = 0; t < n; t++) to[t] = (x[t] - mean) * is;
  return is;
}
/* the way back: dx from f G, the gradient of x~ */
static void standard_back(int on, const float *xs, float is, float f, const float *G, int n, float *dx) {
  if (!on) {
    for (int t = 0; t < n; t++) dx[t] = f * G[t];
    return;
  }
  float mean = 0, along = 0;
  for (int t = 0; t < n; t++) mean += G[t], along += G[t] * xs[t];
  mean /= n, along /= n;
  for (int t = 0; t < n; t++) dx[t] = f * is * (G[t] - mean - xs[t] * along);
}
static void exps(float *x, int n) { /* in place; x <= 0 */
  for (int t = 0; t < n; t += VL) S(x + t) = vexp(L(x + t));
}
static float gate(float y) { return 1 / (1 + expf(-y)); }

static void row_room(const ListArgs *a, ListRow *r, Scratch *s) {
  int n = round_up(a->L, 16) + 16, w = a->d;
  if (a->e > w) w = a->e;
  if (a->dz > w) w = a->dz;
  if (a->da > w) w = a->da;
  r->width = w = round_up(w, 16) + 16;
  r->key = take(s, n), r->far = take(s, n), r->near = take(s, n);
  float **arrays[] = {&r->base, &r->dot, &r->g, &r->cos, &r->rank, &r->d2, &r->ws, &r->wc, &r->phi,
                      &r->ra, &r->rc, &r->xa, &r->xs, &r->xc, &r->S, &r->A, &r->G, &r->dx, &r->dd2,
                      &r->dcos, &r->tmp};
  for (unsigned m = 0; m < sizeof arrays / sizeof *arrays; m++) {
    *arrays[m] = take(s, n);
    memset(*arrays[m], 0, n * 4);
  }
  r->s = take(s, w), r->u = take(s, w), r->c = take(s, w), r->du = take(s, w), r->dc = take(s, w);
}
static size_t row_size(const ListArgs *a) {
  size_t n = round_up(a->L, 16) + 32, w = a->d + a->e + a->dz + a->da + 64;
  return 4 * (24 * n + 5 * w + 1024);
}
/* N_k(i): the k listed keys besides itself that rank highest, of equal ones the earliest */
static void nearest_of(const ListArgs *a, ListRow *r, int h) {
  const float *x = a->tied ? r->cos : r->g;
  int k = a->sizes[h], mates = r->n - (r->own >= 0), above = 0;
  for (int t = 0; t < r->n; t++) {
    float f = x[t];
    if (a->causal) {
      float age = r->far[t] < 0 ? 0 : r->far[t] > OLD ? OLD : r->far[t];
      float size = a->tied || fabsf(f) < 1 ? 1 : fabsf(f);
      f -= TIE * size * age;
    }
    r->rank[t] = t == r->own ? -INFINITY : f;
    r->near[t] = t != r->own;
  }
  r->count = mates < k ? mates : k;
  if (mates <= k) return;
  memcpy(r->tmp, r->rank, r->n * 4);
  float edge = kth_of(r->tmp, r->n, k);
  for (int t = 0; t < r->n; t++) above += r->rank[t] > edge;
  for (int t = 0, room = k - above; t < r->n; t++)
    r->near[t] = r->rank[t] > edge || (r->rank[t] == edge && room-- > 0);
}
/* everything of a row up to its weights; 0 where the list is empty */
static int row_forward(const ListArgs *a, ListRow *r, int b, int h, int i, const float *inv,
                       const float *ihk) {
  const float *w = a->numbers + h * LIST_NUMBERS;
  const int64_t *list = a->list + b * a->list_b + h * a->list_h + i * a->list_n;
  const unsigned char *near =
      a->near ? a->near + b * a->near_b + h * a->near_h + i * a->near_n : NULL;
  const float *other = a->other.p ? a->other.p + b * a->other.b + h * a->other.h + i * a->other.n : NULL;
  int n = 0, kv = h / (a->H / a->G);
  r->own = -1, r->count = 0;
  for (int t = 0; t < a->L; t++) {
    if (list[t] < 0) continue;
    r->key[n] = list[t];
    r->far[n] = a->cross ? 1 : a->p[i] - a->j[list[t]];
    if (!a->cross && r->far[n] == 0) r->own = n;
    if (near) r->near[n] = near[t], r->count += near[t];
    r->tmp[n++] = other ? other[t] : 0;
  }
  r->n = n;
  if (!n) return 0;
  const float *q = a->q.p + b * a->q.b + h * a->q.h + i * a->q.n;
  const float *k = a->k.p + b * a->k.b + kv * a->k.h;
  const float *keys = a->unit.p ? a->unit.p + b * a->unit.b + kv * a->unit.h : k;
  long ks = a->unit.p ? a->unit.n : a->k.n;
  const float *hq = a->hq.p + b * a->hq.b + h * a->hq.h + i * a->hq.n;
  const float *hk = a->hk.p + b * a->hk.b + h * a->hk.h;
  dots(r, q, k, a->k.n, a->d, r->base);
  float scale = 1 / sqrtf(a->d);
  for (int t = 0; t < n; t++) r->S[t] = r->base[t] * scale + r->tmp[t];
  int ranks = !near && (a->align || a->sep || (a->local && a->coh));
  if (a->term || a->sep || ranks) {
    dots(r, hq, hk, a->hk.n, a->da, r->dot);
    float length = sqrtf(dot1(hq, hq, a->da)), ihq = 1 / (length < FLOOR ? FLOOR : length);
    float root = 1 / sqrtf(a->da);
    for (int t = 0; t < n; t++) {
      r->cos[t] = r->dot[t] * ihq * ihk[r->key[t]];
      r->g[t] = r->dot[t] * root;
      if (!a->bias) continue;
      int far = r->far[t] > MAX_DISTANCE ? MAX_DISTANCE : r->far[t];
      r->g[t] += a->bias[(far < -MAX_DISTANCE ? -MAX_DISTANCE : far) + MAX_DISTANCE];
    }
  }
  if (ranks) nearest_of(a, r, h);
  if (a->term) for (int t = 0; t < n; t++) r->S[t] += w[OAFF] * r->g[t];
  if (a->align) {
    memset(r->s, 0, a->d * 4);
    for (int t = 0; t < n; t++)
      if (r->near[t]) axpy(inv[r->key[t]], keys + r->key[t] * ks, r->s, a->d);
    r->len = sqrtf(dot1(r->s, r->s, a->d));
    float f = 1 / (r->len < FLOOR ? FLOOR : r->len), mean = r->len / (r->count ? r->count : 1);
    for (int c = 0; c < a->d; c++) r->u[c] = r->s[c] * f;
    r->var_a = 1 - mean * mean;
    r->gamma_a = gate(-w[AA] * r->var_a);
    dots(r, r->u, keys, ks, a->d, r->ra);
    for (int t = 0; t < n; t++) r->ra[t] *= inv[r->key[t]];
    r->isa = standard(a->standardise, r->ra, n, r->xa);
    r->fa = w[OA] * r->gamma_a;
    for (int t = 0; t < n; t++) r->S[t] += r->fa * r->xa[t];
  }
  if (a->sep || a->coh) {
    const float *zq = a->zq.p + b * a->zq.b + h * a->zq.h + i * a->zq.n;
    const float *zk = a->zk.p + b * a->zk.b + h * a->zk.h;
    for (int t = 0; t < n; t++) {
      const float *z = zk + r->key[t] * a->zk.n;
      float d2 = 0;
      int c = 0;
      vf s = {0};
      for (; c + VL <= a->dz; c += VL) {
        vf x = *(const vf_any *)(zq + c) - *(const vf_any *)(z + c);
        s += x * x;
      }
      for (; c < a->dz; c++) d2 += (zq[c] - z[c]) * (zq[c] - z[c]);
      r->d2[t] = d2 + sum(s);
    }
  }
  if (a->sep) {
    float t2 = -1 / (w[TS] * w[TS]);
    for (int t = 0; t < n; t++) r->ws[t] = r->d2[t] * t2;
    exps(r->ws, n);
    r->rho = 0;
    for (int t = 0; t < n; t++) {
      if (a->local ? r->near[t] : t != r->own) r->rho += r->ws[t];
      float over = r->cos[t] - w[DELTA];
      r->phi[t] = r->near[t] && over > 0 ? -r->ws[t] * over : 0;
    }
    r->eta = r->rho / w[KAPPA] < 1 ? r->rho / w[KAPPA] : 1;
    r->iss = standard(a->standardise, r->phi, n, r->xs);
    r->fs = w[OS] * r->eta;
    for (int t = 0; t < n; t++) r->S[t] += r->fs * r->xs[t];
  }
  if (a->coh) {
    const float *zk = a->zk.p + b * a->zk.b + h * a->zk.h;
    float low = INFINITY, mass = 0, t2 = -1 / (w[TC] * w[TC]);
    for (int t = 0; t < n; t++)
      if ((!a->local || r->near[t] || t == r->own) && r->d2[t] < low) low = r->d2[t];
    for (int t = 0; t < n; t++) r->wc[t] = (r->d2[t] - low) * t2 < 0 ? (r->d2[t] - low) * t2 : 0;
    exps(r->wc, n);
    for (int t = 0; t < n; t++) {
      if (a->local && !r->near[t] && t != r->own) r->wc[t] = 0;
      mass += r->wc[t];
    }
    memset(r->c, 0, a->dz * 4);
    for (int t = 0; t < n; t++) {
      r->wc[t] = mass ? r->wc[t] / mass : 0;
      if (r->wc[t]) axpy(r->wc[t], zk + r->key[t] * a->zk.n, r->c, a->dz);
    }
    r->var_c = 0;
    for (int t = 0; t < n; t++) {
      const float *z = zk + r->key[t] * a->zk.n;
      float e = 0;
      for (int c = 0; c < a->dz; c++) e += (z[c] - r->c[c]) * (z[c] - r->c[c]);
      r->rc[t] = -e / w[TC];
      r->var_c += r->wc[t] * e;
    }
    r->gamma_c = mass ? gate(-w[AC] * r->var_c) : 0;
    r->isc = standard(a->standardise, r->rc, n, r->xc);
    r->fc = w[OC] * r->gamma_c;
    for (int t = 0; t < n; t++) r->S[t] += r->fc * r->xc[t];
  }
  float top = -INFINITY, mass = 0, tau = 1 / w[TAU];
  for (int t = 0; t < n; t++) {
    r->S[t] *= tau;
    if (r->S[t] > top) top = r->S[t];
  }
  for (int t = 0; t < n; t++) r->A[t] = r->S[t] - top;
  for (int t = n; t < round_up(n, VL); t++) r->A[t] = 0;
  exps(r->A, n);
  for (int t = 0; t < n; t++) mass += r->A[t];
  for (int t = 0; t < n; t++) r->A[t] /= mass;
  return n;
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
static int list_forward_task(const ListArgs *a, int task) {
  int b = task / a->G, kv = task % a->G, share = a->H / a->G;
  Scratch c = scratch(row_size(a) + 8 * (a->M + 64));
  if (!c.at) return 0;
  ListRow r;
  float *inv = take(&c, a->M), *ihk = take(&c, a->M);
  row_room(a, &r, &c);
  key_lengths(a, b, kv, inv);
  for (int h = kv * share; h < (kv + 1) * share; h++) {
    const float *v = a->v.p + b * a->v.b + kv * a->v.h;
    if (h == kv * share || a->hk.h)
      inverse_lengths(a->hk.p + b * a->hk.b + h * a->hk.h, a->hk.n, a->M, a->da, ihk);
    for (int i = 0; i < a->N; i++) {
      float *out = a->out.p + b * a->out.b + h * a->out.h + i * a->out.n;
      memset(out, 0, a->e * 4);
      int n = row_forward(a, &r, b, h, i, inv, ihk);
      for (int t = 0; t < n; t++) axpy(r.A[t], v + r.key[t] * a->v.n, out, a->e);
    }
  }
  return 1;
}
/* the gradient of cos and g: of h */
static void back_affinity(const ListArgs *a, ListRow *r, int b, int h, int i, const float *ihk, float omega,
                          float *dbias) {
  const float *hq = a->hq.p + b * a->hq.b + h * a->hq.h + i * a->hq.n;
  const float *hk = a->hk.p + b * a->hk.b + h * a->hk.h;
  float *dhq = a->dhq.p + b * a->dhq.b + h * a->dhq.h + i * a->dhq.n;
  float *dhk = a->dhk.p + b * a->dhk.b + h * a->dhk.h;
  float length = sqrtf(dot1(hq, hq, a->da)), ihq = 1 / (length < FLOOR ? FLOOR : length);
  float root = 1 / sqrtf(a->da), along = 0;
  for (int t = 0; t < r->n; t++) {
    const float *y = hk + r->key[t] * a->hk.n;
    float *dy = dhk + r->key[t] * a->dhk.n;
    float dg = a->term ? omega * r->G[t] : 0, ddot = dg * root;
    if (dg && dbias) {
      int far = r->far[t] > MAX_DISTANCE ? MAX_DISTANCE : r->far[t];
      dbias[(far < -MAX_DISTANCE ? -MAX_DISTANCE : far) + MAX_DISTANCE] += dg;
    }
    if (r->dcos[t]) {
      float ik = ihk[r->key[t]], f = r->dcos[t] * ihq * ik;
      ddot += f;
      axpy(-r->dcos[t] * r->cos[t] * ik * ik * (ik < 1 / FLOOR), y, dy, a->da);
      along += r->dcos[t] * r->cos[t];
    }
    if (!ddot) continue;
    axpy(ddot, y, dhq, a->da);
    axpy(ddot, hq, dy, a->da);
  }
  if (along && length >= FLOOR) axpy(-along * ihq * ihq, hq, dhq, a->da);
}
static void back_alignment(const ListArgs *a, ListRow *r, int b, int kv, const float *w, const float *inv,
                           float *dw) {
  const float *keys = a->unit.p ? a->unit.p + b * a->unit.b + kv * a->unit.h
                                : a->k.p + b * a->k.b + kv * a->k.h;
  long ks = a->unit.p ? a->unit.n : a->k.n;
  float *dkeys = a->dunit.p + b * a->dunit.b + kv * a->dunit.h, df = 0;
  for (int t = 0; t < r->n; t++) df += r->G[t] * r->xa[t];
  standard_back(a->standardise, r->xa, r->isa, r->fa, r->G, r->n, r->dx);
  float dy = df * w[OA] * r->gamma_a * (1 - r->gamma_a);
  dw[OA] += df * r->gamma_a;
  dw[AA] -= dy * r->var_a;
  int count = r->count ? r->count : 1;
  float dlen = dy * w[AA] * 2 * r->len / ((float)count * count), along = 0;
  memset(r->du, 0, a->d * 4);
  for (int t = 0; t < r->n; t++) {
    axpy(r->dx[t] * inv[r->key[t]], keys + r->key[t] * ks, r->du, a->d);
    along += r->dx[t] * r->ra[t]; /* u.du */
  }
  int real = r->len >= FLOOR;
  float f = 1 / (real ? r->len : FLOOR), back = real ? dlen - along * f : 0;
  for (int c = 0; c < a->d; c++) r->du[c] = r->du[c] * f + back * r->u[c]; /* ds */
  for (int t = 0; t < r->n; t++) {
    float *dk = dkeys + r->key[t] * a->dunit.n;
    axpy(r->dx[t], r->u, dk, a->d);
    if (r->near[t]) axpy(1, r->du, dk, a->d);
  }
}
static void back_separation(const ListArgs *a, ListRow *r, const float *w, float *dw) {
  float df = 0, t2 = 1 / (w[TS] * w[TS]);
  for (int t = 0; t < r->n; t++) df += r->G[t] * r->xs[t];
  standard_back(a->standardise, r->xs, r->iss, r->fs, r->G, r->n, r->dx);
  dw[OS] += df * r->eta;
  float drho = 0;
  if (r->rho / w[KAPPA] <= 1) {
    drho = df * w[OS] / w[KAPPA];
    dw[KAPPA] -= drho * r->rho / w[KAPPA];
  }
  for (int t = 0; t < r->n; t++) {
    float over = r->cos[t] - w[DELTA], dws = (a->local ? r->near[t] : t != r->own) ? drho : 0;
    if (r->near[t] && over > 0) { /* r = -phi */
      float dphi = -r->dx[t];
      dws += dphi * over;
      r->dcos[t] = dphi * r->ws[t];
      dw[DELTA] -= dphi * r->ws[t];
    }
    r->dd2[t] -= dws * r->ws[t] * t2;
    dw[TS] += dws * r->ws[t] * 2 * r->d2[t] * t2 / w[TS];
  }
}
static void back_cohesion(const ListArgs *a, ListRow *r, const float *zk, float *dzk, const float *w,
                          float *dw) {
  float df = 0, t2 = 1 / (w[TC] * w[TC]), dvar, mean = 0;
  for (int t = 0; t < r->n; t++) df += r->G[t] * r->xc[t];
  standard_back(a->standardise, r->xc, r->isc, r->fc, r->G, r->n, r->dx);
  float dy = df * w[OC] * r->gamma_c * (1 - r->gamma_c);
  dw[OC] += df * r->gamma_c;
  dw[AC] -= dy * r->var_c;
  dvar = -dy * w[AC];
  memset(r->dc, 0, a->dz * 4);
  for (int t = 0; t < r->n; t++) {
    const float *z = zk + r->key[t] * a->zk.n;
    float *dz = dzk + r->key[t] * a->dzk.n, e = -r->rc[t] * w[TC];
    float de = 2 * (dvar * r->wc[t] - r->dx[t] / w[TC]);
    dw[TC] += r->dx[t] * e * t2;
    r->tmp[t] = dvar * e; /* dwc */
    for (int c = 0; c < a->dz; c++) {
      float f = de * (z[c] - r->c[c]);
      dz[c] += f;
      r->dc[c] -= f;
    }
  }
  for (int t = 0; t < r->n; t++) {
    if (!r->wc[t]) continue;
    axpy(r->wc[t], r->dc, dzk + r->key[t] * a->dzk.n, a->dz);
    r->tmp[t] += dot1(r->dc, zk + r->key[t] * a->zk.n, a->dz);
    mean += r->wc[t] * r->tmp[t];
  }
  for (int t = 0; t < r->n; t++) {
    float dl = r->wc[t] * (r->tmp[t] - mean);
    r->dd2[t] -= dl * t2;
    dw[TC] += dl * 2 * r->d2[t] * t2 / w[TC];
  }
}
static void row_backward(const ListArgs *a, ListRow *r, int b, int h, int i, const float *inv,
                         const float *ihk) {
  const float *w = a->numbers + h * LIST_NUMBERS;
  float *dw = a->dnumbers + (b * a->H + h) * LIST_NUMBERS;
  int kv = h / (a->H / a->G), n = r->n;
  const float *g = a->g.p + b * a->g.b + h * a->g.h + i * a->g.n;
  const float *v = a->v.p + b * a->v.b + kv * a->v.h, *k = a->k.p + b * a->k.b + kv * a->k.h;
  const float *q = a->q.p + b * a->q.b + h * a->q.h + i * a->q.n;
  float *dq = a->dq.p + b * a->dq.b + h * a->dq.h + i * a->dq.n;
  float *dk = a->dk.p + b * a->dk.b + kv * a->dk.h, *dv = a->dv.p + b * a->dv.b + kv * a->dv.h;
  float delta = 0, scale = 1 / sqrtf(a->d);
  dots(r, g, v, a->v.n, a->e, r->G);
  for (int t = 0; t < n; t++) delta += r->A[t] * r->G[t];
  for (int t = 0; t < n; t++) {
    axpy(r->A[t], g, dv + r->key[t] * a->dv.n, a->e);
    float ds = r->A[t] * (r->G[t] - delta);
    dw[TAU] -= ds * r->S[t] / w[TAU];
    r->G[t] = ds / w[TAU];
    axpy(r->G[t] * scale, k + r->key[t] * a->k.n, dq, a->d);
    axpy(r->G[t] * scale, q, dk + r->key[t] * a->dk.n, a->d);
    r->dd2[t] = r->dcos[t] = 0;
    if (a->term) dw[OAFF] += r->G[t] * r->g[t];
  }
  if (a->dother.p) {
    const int64_t *list = a->list + b * a->list_b + h * a->list_h + i * a->list_n;
    float *to = a->dother.p + b * a->dother.b + h * a->dother.h + i * a->dother.n;
    for (int t = 0, m = 0; t < a->L; t++) to[t] = list[t] < 0 ? 0 : r->G[m++];
  }
  if (a->align) back_alignment(a, r, b, kv, w, inv, dw);
  if (a->sep) back_separation(a, r, w, dw);
  if (a->sep || a->coh) {
    const float *zq = a->zq.p + b * a->zq.b + h * a->zq.h + i * a->zq.n;
    const float *zk = a->zk.p + b * a->zk.b + h * a->zk.h;
    float *dzq = a->dzq.p + b * a->dzq.b + h * a->dzq.h + i * a->dzq.n;
    float *dzk = a->dzk.p + b * a->dzk.b + h * a->dzk.h;
    if (a->coh) back_cohesion(a, r, zk, dzk, w, dw);
    for (int t = 0; t < n; t++) {
      const float *z = zk + r->key[t] * a->zk.n;
      float *dz = dzk + r->key[t] * a->dzk.n;
      for (int c = 0; c < a->dz; c++) {
        float f = 2 * r->dd2[t] * (zq[c] - z[c]);
        dzq[c] += f;
        dz[c] -= f;
      }
    }
  }
  if (a->sep || a->term)
    back_affinity(a, r, b, h, i, ihk, w[OAFF],
                  a->dbias ? a->dbias + (long)(b * a->H + h) * (2 * MAX_DISTANCE + 1) : NULL);
}
static int list_backward_task(const ListArgs *a, int task) {
  int b = task / a->G, kv = task % a->G, share = a->H / a->G;
  Scratch c = scratch(row_size(a) + 8 * (a->M + 64));
  if (!c.at) return 0;
  ListRow r;
  float *inv = take(&c, a->M), *ihk = take(&c, a->M);
  row_room(a, &r, &c);
  key_lengths(a, b, kv, inv);
  for (int h = kv * share; h < (kv + 1) * share; h++) {
    if (h == kv * share || a->hk.h)
      inverse_lengths(a->hk.p + b * a->hk.b + h * a->hk.h, a->hk.n, a->M, a->da, ihk);
    for (int i = 0; i < a->N; i++)
      if (row_forward(a, &r, b, h, i, inv, ihk)) row_backward(a, &r, b, h, i, inv, ihk);
  }
  if (a->align && !a->unit.p) /* from k~ to k */
    for (int m = 0; m < a->M; m++) {
      const float *k = a->k.p + b * a->k.b + kv * a->k.h + m * a->k.n;
      const float *du = a->dunit.p + b * a->dunit.b + kv * a->dunit.h + m * a->dunit.n;
      float *dk = a->dk.p + b * a->dk.b + kv * a->dk.h + m * a->dk.n;
      axpy(inv[m], du, dk, a->d);
      if (inv[m] < 1 / FLOOR) axpy(-inv[m] * inv[m] * inv[m] * dot1(k, du, a->d), k, dk, a->d);
    }
  return 1;
}
int asc_list_forward(const ListArgs *a, int from, int to) {
  int ok = 1;
  FLUSH_DENORMALS
  for (int i = from; i < to && ok; i++) ok = list_forward_task(a, i);
  RESTORE_DENORMALS
  return ok;
}
int asc_list_backward(const ListArgs *a, int from, int to) {
  int ok = 1;
  FLUSH_DENORMALS
  for (int i = from; i < to && ok; i++) ok = list_backward_task(a, i);
  RESTORE_DENORMALS
  return ok;
}
