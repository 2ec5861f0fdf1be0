/* One new token against all keys of a cache: what decoding mostly is. No gradients.

   It sees every key and is the last of them. Keys and values are rows (tokens, width) and may be
   grouped: `share` heads use one. z (with |z|^2 as its last column) and h are stored column by
   column, (width, tokens). One task is one sequence and the heads that share z and h, or one. */
#include "visible.h"

typedef struct {
  int B, H, groups, share, M, d, e, dz, da, k, align, sep, coh, causal;
  View q, keys, bare, scale, v, zq, z, hq, h, out; /* scale: 1/|k_j|; else key_scale by head */
  const float *key_scale, *numbers;                /* (H), (H, 10) */
} Token;
typedef struct {
  float *cosine, *rank, *D2, *W, *WS, *RC, *SC, *RA, *u, *x, *centre;
  int *hit, *idx;
  vf odd; /* NaN where something that was read is not finite */
} Row;

static float *at(const View *t, int b, int h) { return t->p + b * t->b + h * t->h; }

#define CHUNK 256
/* out[t] = sum_c x[c] y[c][t]; stride: of a column */
static void columns_dot(const float *y, long stride, int w, const float *x, int M, float *out) {
  for (int t0 = 0; t0 < M; t0 += CHUNK) {
    int end = t0 + CHUNK < M ? t0 + CHUNK : M;
    for (int c = 0; c < w; c += 4) {
      int more = w - c < 4 ? w - c : 4;
      const float *p = y + c * stride;
      for (int t = t0; t < end; t += VL) {
        vf s = c ? L(out + t) : set(0);
        for (int i = 0; i < more; i++) s += x[c + i] * load(p + i * stride + t, M - t);
        S(out + t) = s;
      }
    }
  }
}
/* out[c] = sum_t p[t] y[c][t] */
static void columns_mix(const float *y, long stride, int w, const float *p, int M, float *out) {
  for (int c = 0; c < w; c++) {
    vf s = {0}, s1 = {0};
    int t = 0;
    for (; t + 2 * VL <= M; t += 2 * VL) {
      s += L(p + t) * *(const vf_any *)(y + c * stride + t);
      s1 += L(p + t + VL) * *(const vf_any *)(y + c * stride + t + VL);
    }
    for (; t < M; t += VL) s += L(p + t) * load(y + c * stride + t, M - t);
    out[c] = sum(s + s1);
  }
}
/* a[t] = x.y_t and, where given, b[t] = z.y_t, for rows y; w a multiple of VL or not */
static void rows_dot(const float *y, long stride, int w, const float *x, const float *z, int M,
                     float *a, float *b) {
  for (int t = 0; t < M; t += VL) {
    vf s[VL], u[VL];
    for (int r = 0; r < VL; r++) {
      const float *row = y + (t + r) * stride;
      vf a0 = {0}, b0 = {0};
      int c = 0, end = t + r < M ? w : 0;
      for (; c + VL <= end; c += VL) {
        vf k = *(const vf_any *)(row + c);
        a0 += L(x + c) * k;
        if (z) b0 += L(z + c) * k;
      }
      for (; c < end; c += VL) {
        vf k = load(row + c, w - c);
        a0 += L(x + c) * k;
        if (z) b0 += L(z + c) * k;
      }
      s[r] = a0;
      u[r] = b0;
    }
    S(a + t) = sums(s);
    if (z) S(b + t) = sums(u);
  }
}
/* out = sum_t p[t] y_t */
static void rows_mix(const float *y, long stride, int w, const float *p, int M, float *out) {
  for (int c = 0; c < w; c += 4 * VL) {
    vf s[4] = {{0}};
    int left = w - c;
    if (left >= 4 * VL)
      for (int t = 0; t < M; t++)
        for (int i = 0; i < 4; i++) s[i] += p[t] * *(const vf_any *)(y + t * stride + c + i * VL);
    else
      for (int t = 0; t < M; t++)
        for (int i = 0; i * VL < left; i++)
          s[i] += p[t] * load(y + t * stride + c + i * VL, left - i * VL);
    for (int i = 0; i < 4; i++)
      for (int r = 0; r < VL && i * VL + r < left; r++) out[c + i * VL + r] = s[i][r];
  }
}
/* x -= its mean; 1/sqrt(var + eps) */
static float standardise(float *x, int M) {
  float mean = total(x, M) / M;
  vf s = {0};
  for (int t = 0; t < M; t += VL) {
    vf y = keep(L(x + t) - mean, LANE < seti(M - t));
    S(x + t) = y;
    s += y * y;
  }
  return 1 / sqrtf(sum(s) / M + 1e-5f);
}
/* the places of the k largest of n numbers (n a multiple of 16 VL), of equal ones the earliest, in
   idx; how many: fewer than k where numbers are NaN or -inf. hit and x have room for n + VL. */
static int largest(const float *rank, int n, int k, int *hit, float *x, int *idx) {
  float edge = -INFINITY; /* a lower bound: VL columns of every VL-th key, c of each above it */
  int c = (k + VL - 1) / VL, to = 0;
  if (c <= SORTED) {
    vf each = kth_sorted(rank, n / VL, c);
    edge = each[0];
    for (int r = 1; r < VL; r++) edge = each[r] < edge ? each[r] : edge;
  }
  int found = places(rank, n, edge, hit);
  if (found <= k) {
    memcpy(idx, hit, found * sizeof *idx);
    return found;
  }
  for (int m = 0; m < found; m++) x[m] = rank[hit[m]];
  edge = kth_of(x, found, k);
  int above = 0, room;
  for (int m = 0; m < found; m++) above += rank[hit[m]] > edge;
  room = k - above;
  for (int m = 0; m < found; m++) {
    float y = rank[hit[m]];
    if (y > edge || (y == edge && room-- > 0)) idx[to++] = hit[m];
  }
  return to;
}
/* the places of the k largest cosines but the last key's: idx */
static void nearest(const Token *a, Row *w) {
  int M = a->M, n = round_up(M, 16 * VL);
  for (int t = 0; t < n; t += VL) {
    vi place = LANE + seti(t);
    vf x = t < M ? L(w->cosine + t) : set(0);
    w->odd += x - x;
    if (a->causal) x = aged(x, seti(M - 1) - place, 1);
    S(w->rank + t) = choose(place < seti(M - 1), x, set(-INFINITY));
  }
  int found = largest(w->rank, n, a->k, w->hit, w->x, w->idx);
  for (; found < a->k; found++) w->idx[found] = 0; /* NaN: the output is NaN too */
}
static float sigmoid1(float x) { return 1 / (1 + expf(-x)); }

/* what the heads of a task share: neighbours, distances, the centre; returns rho and the extent */
static void token_geometry(const Token *a, Row *w, int b, int grp, const float *nu, float *rho,
                           float *extent, float *rc) {
  int M = a->M, dz = a->dz;
  if (a->align || a->sep) {
    columns_dot(at(&a->h, b, grp), a->h.n, a->da, at(&a->hq, b, grp), M, w->cosine);
    nearest(a, w);
  }
  if (!a->sep && !a->coh) return;
  const float *z = at(&a->z, b, grp), *zq = at(&a->zq, b, grp);
  float probe[dz + 1], zz = 0;
  for (int c = 0; c < dz; c++) probe[c] = 2 * zq[c], zz += zq[c] * zq[c];
  probe[dz] = -1;
  columns_dot(z, a->z.n, dz + 1, probe, M, w->D2);
  float ns = 1 / (nu[TS] * nu[TS]), nc = 1 / (nu[TC] * nu[TC]);
  vf crowd = {0}, mass = {0};
  w->D2[M - 1] = zz;
  for (int t = 0; t < M; t += VL) {
    vf d2 = zz - L(w->D2 + t);
    w->odd += d2 - d2;
    d2 = vmax(d2, set(0));
    vi real = LANE < seti(M - t);
    vf ws = keep(vexp(-d2 * ns), LANE < seti(M - 1 - t)), wc = keep(vexp(-d2 * nc), real);
    S(w->WS + t) = ws;
    S(w->W + t) = wc;
    crowd += ws;
    mass += wc;
  }
  *rho = sum(crowd);
  if (!a->coh) return;
  float isum = 1 / sum(mass), c2 = 0;
  columns_mix(z, a->z.n, dz + 1, w->W, M, w->centre);
  for (int c = 0; c <= dz; c++) w->centre[c] *= isum;
  for (int c = 0; c < dz; c++) c2 += w->centre[c] * w->centre[c];
  *extent = w->centre[dz] > c2 ? w->centre[dz] - c2 : 0;
  for (int c = 0; c < dz; c++) probe[c] = 2 * w->centre[c] / nu[TC];
  probe[dz] = -1 / nu[TC];
  columns_dot(z, a->z.n, dz + 1, probe, M, w->RC);
  *rc = standardise(w->RC, M);
}
static void token_head(const Token *a, Row *w, int b, int h, float rho, float extent, float rc) {
  int M = a->M, d = a->d, g = h / a->share, wide = round_up(d, VL);
  const float *nu = a->numbers + NUMBERS * h, *q = at(&a->q, b, h);
  const View *from = a->bare.p ? &a->bare : &a->keys;
  const float *keys = at(&a->keys, b, g), *bare = at(from, b, g);
  const float *scale = a->scale.p ? at(&a->scale, b, g) : NULL;
  float fa = 0, fc = 0, fixed = scale ? 0 : a->key_scale[h];
  for (int c = 0; c < wide; c++) w->x[c] = c < d ? q[c] / sqrtf(d) : 0, w->u[c] = 0;
  if (a->align) {
    float length = 0;
    for (int t = 0; t < a->k; t++) {
      int j = w->idx[t];
      float f = scale ? scale[j] : fixed;
      for (int c = 0; c < d; c++) w->u[c] += f * bare[j * from->n + c];
    }
    for (int c = 0; c < d; c++) length += w->u[c] * w->u[c];
    length = sqrtf(length);
    float R = length / a->k;
    for (int c = 0; c < d; c++) w->u[c] /= length > 1e-12f ? length : 1e-12f;
    if (a->bare.p) {
      rows_dot(keys, a->keys.n, d, w->x, NULL, M, w->SC, NULL);
      rows_dot(bare, from->n, d, w->u, NULL, M, w->RA, NULL);
    } else rows_dot(keys, a->keys.n, d, w->x, w->u, M, w->SC, w->RA);
    for (int t = 0; t < M; t += VL) S(w->RA + t) *= scale ? (vf)load(scale + t, M - t) : set(fixed);
    fa = nu[OA] * sigmoid1(nu[AA] * (R * R - 1)) * standardise(w->RA, M);
  } else rows_dot(keys, a->keys.n, d, w->x, NULL, M, w->SC, NULL);
  if (a->coh) fc = nu[OC] * sigmoid1(-nu[AC] * extent) * rc;
  if (a->sep) {
    float phi[a->k], mean = 0, square = 0, eta = rho / nu[KAPPA] < 1 ? rho / nu[KAPPA] : 1;
    for (int t = 0; t < a->k; t++) {
      float over = w->cosine[w->idx[t]] - nu[DELTA];
      phi[t] = over > 0 ? w->WS[w->idx[t]] * over : 0;
      mean += phi[t] / M;
      square += phi[t] * phi[t] / M;
    }
    float var = square - mean * mean, f = nu[OS] * eta / sqrtf((var > 0 ? var : 0) + 1e-5f);
    for (int t = 0; t < a->k; t++) w->SC[w->idx[t]] -= f * phi[t];
  }
  float it = 1 / nu[TAU];
  vf top = set(-1e30f), mass = {0}, odd = w->odd;
  for (int t = 0; t < M; t += VL) {
    vf s = L(w->SC + t);
    odd += s - s;
    if (a->align) s += fa * L(w->RA + t);
    if (a->coh) s += fc * L(w->RC + t);
    s = choose(LANE < seti(M - t), s * it, set(-1e30f));
    S(w->SC + t) = s;
    top = vmax(top, s);
  }
  float most = top[0];
  for (int r = 1; r < VL; r++) most = top[r] > most ? top[r] : most;
  for (int t = 0; t < M; t += VL) {
    vf p = keep(vexp(L(w->SC + t) - most), LANE < seti(M - t));
    S(w->SC + t) = p;
    mass += p;
  }
  float iz = 1 / sum(mass), *out = at(&a->out, b, h);
  rows_mix(at(&a->v, b, g), a->v.n, a->e, w->SC, M, out);
  for (int c = 0; c < a->e; c++) out[c] *= iz;
  float strange = sum(odd);
  if (strange != strange) for (int c = 0; c < a->e; c++) out[c] = NAN;
}
int asc_token(const Token *a, int from, int to) {
  size_t n = round_up(a->M, 16 * VL) + VL, wide = round_up(a->d, VL) + n;
  Scratch s = scratch(4 * (10 * (n + 16) + 2 * (wide + 16) + a->dz + a->k + 64));
  if (!s.at) return 0;
  Row w = {take(&s, n), take(&s, n), take(&s, n), take(&s, n), take(&s, n), take(&s, n),
           take(&s, n), take(&s, n), take(&s, wide), take(&s, wide), take(&s, a->dz + 1),
           take(&s, n), take(&s, a->k), set(0)};
  int heads = a->H / a->groups;
  FLUSH_DENORMALS
  for (int i = from; i < to; i++) {
    int b = i / a->groups, grp = i % a->groups;
    float rho = 0, extent = 0, rc = 1;
    w.odd = set(0);
    token_geometry(a, &w, b, grp, a->numbers + NUMBERS * grp * heads, &rho, &extent, &rc);
    for (int h = 0; h < heads; h++) token_head(a, &w, b, grp * heads + h, rho, extent, rc);
  }
  RESTORE_DENORMALS
  return 1;
}
