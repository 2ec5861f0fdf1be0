/* Attention with alignment, separation and cohesion (docs/definition.md), float32, forward and
   backward.

   One task is one sequence and one group of heads: the heads that share z, h, lists and masks (all
   of them, or one). Its matrices of scores exist for VL rows at a time, which stay in the L1 and L2
   caches. Forward keeps per row the neighbours, the centre, the heading and a few statistics;
   backward makes the scores again from these.

     D2 = |z_i - z_j|^2     WS, WC = exp(-D2/tau^2) of separation and cohesion
     RA = u.k~              RC = (2 c.z - |z|^2)/tau     the rows of alignment and cohesion
     SC = q.k/sqrt(d) + fa RA + fc RC - fs phi + other,  f = omega gate / sqrt(var + eps)

   A gradient dL/dx is written dx; G is dL/d(the sum before tau_score). */
#include "visible.h"

#define EPS 1e-5f
#define FLOOR 1e-12f
#define HIDDEN (-1e30f)
#define Z_LIMIT 5.0805e7f /* max^(1/5): core/geometry.py, bounded */

enum { SEMANTIC = 1, SCORES = 2, GIVEN = 3 };
enum { ISUM, MASS, RHO, EXTENT, MEAN_C, RS_C, COUNT, GEO_STATS };
enum { LENGTH, MEAN_A, RS_A, TOP, IZ, HEAD_STATS };

typedef struct {
  int B, H, groups, d, e, dz, da, K, search, standardise, local, align, sep, coh, same_z, same_h;
  Visible see;
  View q, k, unit, v, zq, zk, hq, hk, other, out; /* unit: the directions k~, else from k */
  View g, dq, dk, dunit, dv, dzq, dzk, dhq, dhk, dother;
  const int *sizes;   /* (groups): k of each */
  const int64_t *list; long list_b, list_h, list_n; /* GIVEN: (b, h, N, K), -1 = none */
  const float *numbers; /* (H, 10) */
  float *saved, *dnumbers; /* saved: asc_saved floats; dnumbers: (B, H, 10) */
  int *nonfinite;     /* set where an input is not finite */
} Args;

typedef struct { float *Q, *K, *Kt, *U, *Ut, *V, *Vt, *G, *dK, *dU, *dV, *inv; } Head;
typedef struct {
  int n, m, ld, d, e, z, h, K, heads, regular, shift; /* padded sizes; ld: length of a row of scores */
  int lo; /* the first column that a block of rows needs */
  float *Zq, *Zk, *Zt, *zq2, *z2, *Hq, *Hk, *hq_inv, *hk_inv; /* of the geometry */
  float *dZq, *dZk, *dHq, *dHk, *dz2, *colsum;
  float *D2, *WS, *WC, *RC, *SC, *RA, *DA, *DRC;           /* (VL, ld) */
  float *C2, *O, *DU, *DM, *XT;                            /* (VL, widest) */
  float *PHI, *W, *GN, *DLOG, *DCOS;                       /* (VL, K): at the neighbours */
  int *steps, *none, *masks, *near;                        /* rows of -1 and 0 */
  int own[VL];
  const int *seen[VL], *around[VL];
  vf count;
  TopScratch top;
  Head *head;
} Work;

static int wide_list(const Args *a) { return round_up(a->K ? a->K : 1, VL); }
static long geo_size(const Args *a) {
  return (long)padded(a->see.N) * (2 * wide_list(a) + padded(a->dz) + GEO_STATS);
}
static long head_size(const Args *a) {
  return (long)padded(a->see.N) * (padded(a->d) + HEAD_STATS);
}
long asc_saved(const Args *a) { return a->B * (a->groups * geo_size(a) + a->H * head_size(a)); }

/* with s->at = 0 this only counts */
static void layout(const Args *a, Work *w, Scratch *s, int backward) {
  int heads = a->H / a->groups;
  size_t n = w->n = padded(a->see.N), m = w->m = padded(a->see.M), ld = w->ld = w->m + 16;
  size_t d = w->d = padded(a->d), e = w->e = padded(a->e), z = w->z = padded(a->dz),
         h = w->h = padded(a->da), K = w->K = wide_list(a), wide = d > e ? d : e;
  if (z > wide) wide = z;
  if (h > wide) wide = h;
  w->heads = heads;
#define GET(x, count) w->x = take(s, count)
  GET(Zk, m * z); GET(Zt, z * ld); GET(z2, ld); GET(Hk, m * h); GET(hk_inv, m);
  GET(Zq, n * z); GET(zq2, n); GET(Hq, n * h); GET(hq_inv, n);
  GET(D2, VL * ld); GET(WS, VL * ld); GET(WC, VL * ld); GET(RC, VL * ld);
  GET(SC, VL * ld); GET(RA, VL * ld);
  GET(C2, VL * wide); GET(O, VL * wide); GET(XT, VL * wide);
  GET(PHI, VL * K); GET(W, VL * K);
  GET(steps, 2 * ld); GET(none, ld); GET(masks, VL * ld); GET(near, VL * ld);
  if (backward) {
    GET(dZq, n * z); GET(dZk, m * z); GET(dHq, n * h); GET(dHk, m * h); GET(dz2, ld);
    GET(colsum, ld); GET(DA, VL * ld); GET(DRC, VL * ld); GET(DU, VL * wide); GET(DM, VL * wide);
    GET(GN, VL * K); GET(DLOG, VL * K); GET(DCOS, VL * K);
  } else if (a->search == SEMANTIC || a->search == SCORES) {
    size_t t = top_width(&a->see);
    GET(top.raw, t * VL); GET(top.rank, t * VL); GET(top.row, t * VL);
    w->top.bias = NULL;
    GET(top.key, t + VL); GET(top.hit, t + VL);
  }
  w->head = take(s, heads * sizeof(Head) / 4);
  for (int i = 0; i < heads; i++) {
    Head x = {0};
    x.Q = take(s, n * d); x.K = take(s, m * d); x.Kt = take(s, d * ld); x.V = take(s, m * e);
    if (a->align) { x.U = take(s, m * d); x.Ut = take(s, d * ld); x.inv = take(s, m); }
    if (backward) {
      x.Vt = take(s, e * ld); x.G = take(s, n * e);
      x.dK = take(s, m * d); x.dV = take(s, m * e);
      if (a->align) x.dU = take(s, m * d);
    }
    if (s->end) w->head[i] = x;
  }
}
static int prepare(const Args *a, Work *w, int backward) {
  Scratch count = {0, 0};
  layout(a, w, &count, backward);
  Scratch s = scratch((size_t)count.at + 4096);
  if (!s.at) return 0;
  layout(a, w, &s, backward);
  for (int t = 0; t < w->ld; t++) w->steps[t] = -1, w->steps[w->ld + t] = 0, w->none[t] = 0;
  w->regular = 1;
  for (int t = 0; t < a->see.M; t++) w->regular &= a->see.j[t] == t;
  /* the nearest key is at distance 0 where every row sees its own */
  w->shift = !(a->same_z && !a->see.cross && !a->see.mask);
  return 1;
}

/* ---- out of padded rows ---- */
/* rows of x (and of y, where given), to a tensor */
static void unpack(const View *t, int b, int h, int i0, int rows, int width, const float *x,
                   const float *y) {
  int w = padded(width);
  for (int i = 0; i < rows; i++) {
    float *to = t->p + b * t->b + h * t->h + (i0 + i) * t->n;
    const float *from = x + (long)i * w, *more = y ? y + (long)i * w : NULL;
    int c = 0;
    for (; c + VL <= width; c += VL)
      *(vf_any *)(to + c) = plus(L(from + c), more, c);
    for (; c < width; c++) to[c] = more ? from[c] + more[c] : from[c];
  }
}
/* y = x / max(|x|, FLOOR), 1 / that length */
static void units(int n, int w, const float *x, float *y, float *inv) {
  for (int i = 0; i < n; i += VL) {
    vf a[VL];
    for (int r = 0; r < VL; r++) {
      a[r] = set(0);
      for (int c = 0; c < w; c += VL) a[r] += L(x + (i + r) * w + c) * L(x + (i + r) * w + c);
    }
    vf length = vmax(vsqrt(sums(a)), set(FLOOR));
    S(inv + i) = 1.f / length;
    for (int r = 0; r < VL; r++)
      for (int c = 0; c < w; c += VL) S(y + (i + r) * w + c) = L(x + (i + r) * w + c) / length[r];
  }
}
/* du becomes dx = (du - u (u.du)) / |x|, plus `more` where given */
static void units_back(int n, int w, const float *u, float *du, const float *inv, const float *more) {
  for (int i = 0; i < n; i += VL) {
    vf a[VL], dot;
    for (int r = 0; r < VL; r++) {
      a[r] = set(0);
      for (int c = 0; c < w; c += VL) a[r] += L(u + (i + r) * w + c) * L(du + (i + r) * w + c);
    }
    dot = sums(a);
    for (int r = 0; r < VL; r++)
      for (int c = 0; c < w; c += VL) {
        long at = (long)(i + r) * w + c;
        vf x = (L(du + at) - L(u + at) * dot[r]) * inv[i + r];
        S(du + at) = plus(x, more, at);
      }
  }
}

/* ---- z measured from a point that every row sees, h at length 1 ---- */
static void origin(const Args *a, const Work *w, int b, int h, vf *at) {
  const Visible *s = &a->see;
  const unsigned char *mask = s->mask ? s->mask + b * s->mask_b + h * s->mask_h : NULL;
  float n = 0;
  for (int c = 0; c < w->z / VL; c++) at[c] = set(0);
  if (s->window >= 0 || (mask && s->mask_n)) return;
  for (int t = 0; t < s->M; t++) {
    if (mask && !mask[t]) continue;
    n++;
    for (int c = 0; c < w->z / VL; c++) at[c] += L(w->Zk + (long)t * w->z + VL * c);
    if (s->causal) break;
  }
  if (n > 1) for (int c = 0; c < w->z / VL; c++) at[c] *= 1 / n;
}
static void limit(long n, float *x) { /* coordinates beyond Z_LIMIT are read as that */
  for (long i = 0; i < n; i += VL) S(x + i) = vmax(vmin(L(x + i), set(Z_LIMIT)), set(-Z_LIMIT));
}
static void centred(int rows, int z, const vf *at, float *x, float *square) {
  for (int i = 0; i < rows; i++) {
    vf s = set(0);
    for (int c = 0; c < z; c += VL) {
      vf t = L(x + (long)i * z + c) - at[c / VL];
      S(x + (long)i * z + c) = t;
      s += t * t;
    }
    square[i] = sum(s);
  }
}
static vi pack_geometry(const Args *a, Work *w, int b, int grp, int backward) {
  vi odd = {0};
  if (a->sep || a->coh) {
    odd |= pack(&a->zk, b, grp, w->m, a->see.M, a->dz, 1, w->Zk);
    limit((long)w->m * w->z, w->Zk);
    vf at[w->z / VL];
    origin(a, w, b, grp, at);
    if (a->same_z) w->Zq = w->Zk, w->zq2 = w->z2;
    else {
      odd |= pack(&a->zq, b, grp, w->n, a->see.N, a->dz, 1, w->Zq);
      limit((long)w->n * w->z, w->Zq);
      memset(w->zq2, 0, w->n * 4);
      centred(a->see.N, w->z, at, w->Zq, w->zq2);
    }
    memset(w->z2, 0, w->ld * 4);
    centred(a->see.M, w->z, at, w->Zk, w->z2);
    transpose(w->m, w->z, w->Zk, w->z, w->Zt, w->ld);
  }
  if (a->sep || (a->search == SEMANTIC && !backward)) {
    odd |= pack(&a->hk, b, grp, w->m, a->see.M, a->da, 1, w->Hk);
    units(w->m, w->h, w->Hk, w->Hk, w->hk_inv);
    if (a->same_h) w->Hq = w->Hk, w->hq_inv = w->hk_inv;
    else {
      odd |= pack(&a->hq, b, grp, w->n, a->see.N, a->da, 1, w->Hq);
      units(w->n, w->h, w->Hq, w->Hq, w->hq_inv);
    }
  }
  return odd;
}
static vi pack_head(const Args *a, const Work *w, Head *x, int b, int h, int backward) {
  int N = a->see.N, M = a->see.M;
  vi odd = pack(&a->q, b, h, w->n, N, a->d, 1 / sqrtf(a->d), x->Q);
  odd |= pack(&a->k, b, h, w->m, M, a->d, 1, x->K);
  odd |= pack(&a->v, b, h, w->m, M, a->e, 1, x->V);
  transpose(w->m, w->d, x->K, w->d, x->Kt, w->ld);
  if (a->align) {
    if (a->unit.p) odd |= pack(&a->unit, b, h, w->m, M, a->d, 1, x->U);
    else units(w->m, w->d, x->K, x->U, x->inv);
    transpose(w->m, w->d, x->U, w->d, x->Ut, w->ld);
  }
  if (backward) {
    transpose(w->m, w->e, x->V, w->e, x->Vt, w->ld);
    pack(&a->g, b, h, w->n, N, a->e, 1, x->G);
    memset(x->dK, 0, (size_t)w->m * w->d * 4);
    memset(x->dV, 0, (size_t)w->m * w->e * 4);
    if (a->align) memset(x->dU, 0, (size_t)w->m * w->d * 4);
  }
  return odd;
}

/* ---- products of a block of VL rows ---- */
/* X (VL, w) with the transposed keys: (VL, nb) */
APART void scores(const Work *w, int nb, int width, const float *X, const float *Yt, float *C) {
  product(VL, nb - w->lo, width, X, width, 1, Yt + w->lo, w->ld, C + w->lo, w->ld, 0);
}
/* W (VL, nb) with the keys: (VL, w) */
APART void mix(const Work *w, int nb, int width, const float *W, const float *Y, float *C, int add) {
  product(VL, width, nb - w->lo, W + w->lo, w->ld, 1, Y + (long)w->lo * width, width, C, width, add);
}
/* W' (nb, VL) with rows (VL, w), added: (nb, w) */
APART void back(const Work *w, int nb, int width, const float *W, const float *X, float *C) {
  product(nb - w->lo, width, VL, W + w->lo, 1, w->ld, X, width, C + (long)w->lo * width, width, 1);
}

/* ---- masks of a block: V(i) and the surroundings of i; its columns are w->lo ... returned ---- */
static int block_masks(const Args *a, Work *w, int b, int grp, int i0) {
  const Visible *s = &a->see;
  int rows = s->N - i0 < VL ? s->N - i0 : VL, nb = w->m;
  w->lo = 0;
  if (s->causal) nb = padded(upto(s, s->p[i0 + rows - 1]));
  if (s->window >= 0 && !s->n_global) {
    reach(s, i0, rows, &w->lo, &nb);
    w->lo &= ~15;
    nb = padded(nb);
  }
  int plain = !s->mask && s->window < 0 && (w->regular || !s->causal);
  for (int r = 0; r < VL; r++) {
    int i = i0 + r;
    w->own[r] = r < rows ? own_key(s, i) : -1;
    if (r >= rows) w->seen[r] = w->none, w->count[r] = 0;
    else if (plain) {
      int n = s->causal && s->p[i] + 1 < s->M ? s->p[i] + 1 : s->M;
      w->seen[r] = w->steps + w->ld - n;
      w->count[r] = n;
    } else {
      w->count[r] = row_mask(s, b, grp, i, w->lo, nb, w->masks + r * w->ld);
      w->seen[r] = w->masks + r * w->ld;
    }
    w->around[r] = w->seen[r];
  }
  return nb;
}
static void near_masks(const Args *a, Work *w, int nb, const int *idx, const int *n) {
  if (!a->local) return;
  for (int r = 0; r < VL; r++) {
    int *near = w->near + r * w->ld, own = w->own[r];
    memset(near + w->lo, 0, (nb - w->lo) * 4);
    for (int t = 0; t < n[r]; t++) near[idx[r * w->K + t]] = -1;
    if (own >= 0) near[own] = w->seen[r][own];
    w->around[r] = near;
  }
}
/* Vectors may alias anything: what an inner loop reads again and again is in local variables. */
#define ROWS for (int r = 0; r < VL; r++)
#define COLUMNS for (int v = w->lo; v < nb; v += VL)
#define NEAR for (int t = r * w->K; t < (r + 1) * w->K; t += VL)

/* ---- the neighbours of a block, and their cosines; idx padded with some column it has ---- */
static void block_lists(const Args *a, Work *w, int b, int grp, int i0, int nb, int *idx,
                        float *cosine, int *n) {
  int K = w->K, rows = a->see.N - i0 < VL ? a->see.N - i0 : VL;
  ROWS n[r] = 0;
  if (a->search == SEMANTIC) {
    transpose(VL, w->h, w->Hq + (long)i0 * w->h, w->h, w->XT, VL);
    top_block(&a->see, b, grp, i0, w->XT, w->Hk, w->h, NULL, 0, a->sizes[grp], K, 1, &w->top, idx,
              cosine, n);
  } else if (a->search == SCORES) { /* a group is one head, whose scores stay in SC */
    scores(w, nb, w->d, w->head->Q + (long)i0 * w->d, w->head->Kt, w->SC);
    top_block(&a->see, b, grp, i0, NULL, NULL, 0, w->SC, w->ld, a->sizes[grp], K, 0, &w->top, idx,
              NULL, n);
  } else if (a->search == GIVEN)
    for (int r = 0; r < rows; r++) {
      const int64_t *list = a->list + b * a->list_b + grp * a->list_h + (i0 + r) * a->list_n;
      for (int t = 0; t < a->K; t++)
        if (list[t] >= 0) idx[r * K + n[r]++] = (int)list[t];
    }
  ROWS for (int t = n[r]; t < K; t++) idx[r * K + t] = w->lo;
  if (!a->sep || a->search == SEMANTIC) return;
  ROWS for (int t = 0; t < n[r]; t++) {
    vf s = set(0);
    for (int c = 0; c < w->h; c += VL)
      s += L(w->Hq + (long)(i0 + r) * w->h + c) * L(w->Hk + (long)idx[r * K + t] * w->h + c);
    cosine[r * K + t] = sum(s);
  }
}

/* ---- D2 and both kernels; sums over the crowd (rho), the surroundings, and of z^2 there ---- */
static void kernels(const Args *a, Work *w, int i0, int nb, float ts, float tc, vf *rho, vf *mass,
                    vf *square) {
  const int one = ts == tc && !w->shift, coh = a->coh || one, sep = a->sep;
  const float *z2 = w->z2;
  float ns = -1 / (ts * ts), nc = -1 / (tc * tc);
  scores(w, nb, w->z, w->Zq + (long)i0 * w->z, w->Zt, w->D2);
  ROWS {
    int own = w->own[r], block = own < 0 ? -1 : own / VL * VL;
    const int *around = w->around[r];
    float *D = w->D2 + r * w->ld, *WS = w->WS + r * w->ld, *WC = w->WC + r * w->ld;
    vf s0 = set(0), s1 = set(0), s2 = set(0), zi = set(w->zq2[i0 + r]), least = set(3e38f);
    if (a->same_z && own >= 0) D[own] = w->z2[own]; /* distance 0 */
    if (w->shift) {
      COLUMNS {
        vf d2 = vmax(zi + L(z2 + v) - 2.f * L(D + v), set(0));
        least = vmin(least, choose(LI_ANY(around + v), d2, set(3e38f)));
      }
      float low = least[0];
      for (int t = 1; t < VL; t++) low = least[t] < low ? least[t] : low;
      least = set(low);
    } else least = set(0);
    COLUMNS {
      vi m = LI_ANY(around + v);
      vf zj = L(z2 + v), d2 = vmax(zi + zj - 2.f * L(D + v), set(0)), ws, wc;
      S(D + v) = d2;
      wc = coh ? keep(vexp((d2 - least) * nc), m) : set(0);
      ws = one ? wc : sep ? keep(vexp(d2 * ns), m) : set(0);
      if (v == block) ws = keep(ws, LANE != seti(own - v));
      S(WS + v) = ws;
      S(WC + v) = wc;
      s0 += ws;
      s1 += wc;
      s2 += wc * zj;
    }
    rho[r] = s0;
    mass[r] = s1;
    square[r] = s2;
  }
}
/* phi at the neighbours, its mean and variance over V */
static void penalty(Work *w, const int *idx, const float *cosine, vf n, vf inv_n, float delta,
                    vf *mean, vf *var) {
  vf a[VL], b[VL];
  ROWS {
    a[r] = b[r] = set(0);
    NEAR {
      vf ws = gather(w->WS + r * w->ld, LI(idx + t));
      vf phi = ws * vmax(set(0), L(cosine + t) - delta);
      phi = keep(phi, LANE < seti((int)n[r] - (t - r * w->K)));
      S(w->PHI + t) = phi;
      S(w->W + t) = ws;
      a[r] += phi;
      b[r] += phi * phi;
    }
  }
  *mean = sums(a) * inv_n;
  *var = vmax(sums(b) * inv_n - *mean * *mean, set(0));
}
INLINE void scatter(float *row, const int *idx, int n, const float *x, float f) { /* row[idx] += f x */
  for (int t = 0; t < n; t++) row[idx[t]] += x[t] * f;
}
/* X[r] -= its mean over V, 0 elsewhere; mean, and 1/sqrt(var + eps) */
APART void standardised(const Args *a, Work *w, int nb, vf inv_n, float *X, vf *mean, vf *rs) {
  vf s[VL];
  *mean = set(0);
  *rs = set(1);
  if (a->standardise) {
    ROWS {
      const int *seen = w->seen[r];
      const float *x = X + r * w->ld;
      vf t = set(0);
      COLUMNS t += keep(L(x + v), LI_ANY(seen + v));
      s[r] = t;
    }
    *mean = sums(s) * inv_n;
  }
  ROWS {
    const int *seen = w->seen[r];
    float *x = X + r * w->ld;
    vf m = set((*mean)[r]), t = set(0);
    COLUMNS {
      vf y = keep(L(x + v) - m, LI_ANY(seen + v));
      S(x + v) = y;
      t += y * y;
    }
    s[r] = t;
  }
  if (a->standardise) *rs = 1.f / vsqrt(sums(s) * inv_n + EPS);
}

/* where a task's saved statistics are */
typedef struct { int *idx; float *cosine, *centre, *stats, *heads; } Saved;
static Saved saved_of(const Args *a, int b, int grp) {
  long n = padded(a->see.N), each = a->H / a->groups;
  float *p = a->saved + b * (a->groups * geo_size(a) + a->H * head_size(a));
  float *g = p + grp * geo_size(a);
  return (Saved){(int *)g, g + n * wide_list(a), g + 2 * n * wide_list(a),
                 g + n * (2 * wide_list(a) + padded(a->dz)),
                 p + a->groups * geo_size(a) + grp * each * head_size(a)};
}
#define STAT(p, which) S((p) + VL * (which))
static int next(const Args *a, int i0) { return a->see.N - i0 < VL ? a->see.N - i0 : VL; }

/* ---- forward ---- */
typedef struct { int i0, nb, *idx, n[VL]; float *cosine; vf inv_n, cnt, inv_cnt; } Block;

APART void forward_centre(const Args *a, Work *w, const Block *k, const float *nu, float *c,
                           float *st) {
  int nb = k->nb, z = w->z;
  vf rho[VL], mass[VL], square[VL], x[VL];
  kernels(a, w, k->i0, nb, nu[TS], nu[TC], rho, mass, square);
  vf total = sums(mass), some = keep(set(1), total > set(0));
  vf isum = some / vmax(total, set(1e-30f)), e2 = sums(square) * isum, mean = set(0), rs = set(1);
  STAT(st, ISUM) = isum;
  STAT(st, MASS) = e2;
  STAT(st, RHO) = sums(rho);
  if (a->coh) {
    float tc = nu[TC];
    mix(w, nb, z, w->WC, w->Zk, c, 0);
    ROWS {
      x[r] = set(0);
      for (int v = 0; v < z; v += VL) {
        vf m = L(c + r * z + v) * isum[r];
        S(c + r * z + v) = m;
        S(w->C2 + r * z + v) = m * (2 / tc);
        x[r] += m * m;
      }
    }
    STAT(st, EXTENT) = vmax(e2 - sums(x), set(0));
    scores(w, nb, z, w->C2, w->Zt, w->RC);
    const float *z2 = w->z2;
    ROWS {
      float *RC = w->RC + r * w->ld;
      COLUMNS S(RC + v) -= L(z2 + v) * (1 / tc);
    }
    standardised(a, w, nb, k->inv_n, w->RC, &mean, &rs);
  }
  STAT(st, MEAN_C) = mean;
  STAT(st, RS_C) = rs;
}
/* u_i, the direction of the sum of the neighbours' keys: U (VL, d); returns that length */
APART vf heading(const Work *w, const Head *p, const Block *k, float *U) {
  int d = w->d;
  vf x[VL];
  const float *keys = p->U;
  ROWS {
    const int *j = k->idx + r * w->K;
    const int n = k->n[r];
    x[r] = set(0);
    for (int v = 0; v < d; v += VL) {
      vf s = set(0);
      for (int t = 0; t < n; t++) s += L(keys + (long)j[t] * d + v);
      S(U + r * d + v) = s;
      x[r] += s * s;
    }
  }
  vf length = vmax(vsqrt(sums(x)), set(FLOOR));
  ROWS for (int v = 0; v < d; v += VL) S(U + r * d + v) *= 1 / length[r];
  return length;
}
static const float *bias_row(const Args *a, int b, int h, int i) {
  return a->other.p ? a->other.p + b * a->other.b + h * a->other.h + i * a->other.n : NULL;
}
static void add_bias(const Args *a, Work *w, int nb, int b, int h, int i0) {
  int end = nb < a->see.M ? nb : a->see.M;
  for (int r = 0; r < next(a, i0); r++) {
    const float *bias = bias_row(a, b, h, i0 + r);
    for (int t = w->lo; t < end; t++) w->SC[r * w->ld + t] += bias[t];
  }
}
APART void forward_head(const Args *a, Work *w, const Block *k, int b, int h, int place,
                         const float *st, float *U, float *sth) {
  Head *p = w->head + place;
  const float *nu = a->numbers + NUMBERS * h;
  const int nb = k->nb, d = w->d, e = w->e, i0 = k->i0, align = a->align, coh = a->coh;
  float it = 1 / nu[TAU];
  vf x[VL], length = set(1), mean = set(0), rs = set(1), fa = set(0), fc = set(0), pm, pv;
  if (a->search != SCORES) scores(w, nb, d, p->Q + (long)i0 * d, p->Kt, w->SC);
  if (a->align) {
    length = heading(w, p, k, U);
    vf R = length * k->inv_cnt, gate = sigmoid(-nu[AA] * (1.f - R * R));
    scores(w, nb, d, U, p->Ut, w->RA);
    standardised(a, w, nb, k->inv_n, w->RA, &mean, &rs);
    fa = nu[OA] * gate * rs;
  }
  if (a->coh) {
    vf gate = keep(sigmoid(-nu[AC] * STAT(st, EXTENT)), STAT(st, ISUM) > set(0));
    fc = nu[OC] * gate * STAT(st, RS_C);
  }
  if (a->sep) {
    penalty(w, k->idx, k->cosine, k->cnt, k->inv_n, nu[DELTA], &pm, &pv);
    vf fs = nu[OS] * vmin(STAT(st, RHO) * (1 / nu[KAPPA]), set(1));
    if (a->standardise) fs /= vsqrt(pv + EPS);
    ROWS scatter(w->SC + r * w->ld, k->idx + r * w->K, k->n[r], w->PHI + r * w->K, -fs[r]);
  }
  if (a->other.p) add_bias(a, w, nb, b, h, i0);
  ROWS {
    const int *seen = w->seen[r];
    float *SC = w->SC + r * w->ld, *RA = w->RA + r * w->ld, *RC = w->RC + r * w->ld;
    vf top = set(HIDDEN), f = set(fa[r]), g = set(fc[r]);
    COLUMNS {
      vf s = L(SC + v);
      if (align) s += f * L(RA + v);
      if (coh) s += g * L(RC + v);
      s = choose(LI_ANY(seen + v), s * it, set(HIDDEN));
      S(SC + v) = s;
      top = vmax(top, s);
    }
    x[r] = top;
  }
  vf top = maxima(x);
  ROWS {
    const int *seen = w->seen[r];
    float *SC = w->SC + r * w->ld;
    vf s = set(0), m = set(top[r]);
    COLUMNS {
      vf A = keep(vexp(L(SC + v) - m), LI_ANY(seen + v));
      S(SC + v) = A;
      s += A;
    }
    x[r] = s;
  }
  vf total = sums(x), iz = keep(1.f / vmax(total, set(1e-30f)), total > set(0));
  mix(w, nb, e, w->SC, p->V, w->O, 0);
  ROWS for (int v = 0; v < e; v += VL) S(w->O + r * e + v) *= iz[r];
  unpack(&a->out, b, h, i0, next(a, i0), a->e, w->O, NULL);
  STAT(sth, LENGTH) = length;
  STAT(sth, MEAN_A) = mean;
  STAT(sth, RS_A) = rs;
  STAT(sth, TOP) = top;
  STAT(sth, IZ) = iz;
}
static int forward_group(const Args *a, int b, int grp) {
  Work work, *w = &work;
  if (!prepare(a, w, 0)) return 0;
  int h0 = grp * w->heads;
  const float *nu = a->numbers + NUMBERS * h0;
  Saved s = saved_of(a, b, grp);
  vi odd = pack_geometry(a, w, b, grp, 0);
  for (int h = 0; h < w->heads; h++) odd |= pack_head(a, w, w->head + h, b, h0 + h, 0);
  if (bits(odd)) *a->nonfinite = 1;
  for (int i0 = 0; i0 < a->see.N; i0 += VL) {
    float *st = s.stats + (long)i0 * GEO_STATS;
    Block k = {.i0 = i0, .idx = s.idx + (long)i0 * w->K, .cosine = s.cosine + (long)i0 * w->K};
    k.nb = block_masks(a, w, b, grp, i0);
    k.inv_n = 1.f / vmax(w->count, set(1));
    block_lists(a, w, b, grp, i0, k.nb, k.idx, k.cosine, k.n);
    near_masks(a, w, k.nb, k.idx, k.n);
    ROWS k.cnt[r] = k.n[r];
    k.inv_cnt = 1.f / vmax(k.cnt, set(1));
    STAT(st, COUNT) = k.cnt;
    if (a->sep || a->coh) forward_centre(a, w, &k, nu, s.centre + (long)i0 * w->z, st);
    for (int h = 0; h < w->heads; h++) {
      float *U = s.heads + h * head_size(a);
      forward_head(a, w, &k, b, h0 + h, h, st, U + (long)i0 * w->d,
                   U + (long)w->n * w->d + i0 * HEAD_STATS);
    }
  }
  return 1;
}

/* ---- backward ---- */
typedef struct { vf rho, extent; } Slopes; /* dL/d of what the heads share */

APART void backward_head(const Args *a, Work *w, const Block *k, int b, int h, int place,
                          const float *st, const float *U, const float *sth, vf *dn, Slopes *ds) {
  Head *p = w->head + place;
  const float *nu = a->numbers + NUMBERS * h;
  const int nb = k->nb, d = w->d, e = w->e, i0 = k->i0, rows = next(a, i0), K = w->K;
  const int align = a->align, coh = a->coh;
  float it = 1 / nu[TAU];
  vf x[VL], y[VL], t3[VL], inv_n = k->inv_n, pm = set(0), pv = set(0), dot;
  vf length = STAT(sth, LENGTH), mean = STAT(sth, MEAN_A), ra = STAT(sth, RS_A),
     top = STAT(sth, TOP), iz = STAT(sth, IZ), rho = set(0), extent = set(0), rc = set(1);
  vf ga = set(0), gc = set(0), fa = set(0), fc = set(0), fs = set(0), eta = set(0), rs = set(1);
  vf scatter_a = set(0);
  scores(w, nb, d, p->Q + (long)i0 * d, p->Kt, w->SC);
  scores(w, nb, e, p->G + (long)i0 * e, p->Vt, w->DA);
  if (a->align) {
    vf R = length * k->inv_cnt;
    scatter_a = 1.f - R * R;
    ga = sigmoid(-nu[AA] * scatter_a);
    fa = nu[OA] * ga * ra;
    scores(w, nb, d, U, p->Ut, w->RA);
  }
  if (a->coh) {
    extent = STAT(st, EXTENT);
    rc = STAT(st, RS_C);
    gc = keep(sigmoid(-nu[AC] * extent), STAT(st, ISUM) > set(0));
    fc = nu[OC] * gc * rc;
  }
  if (a->sep) {
    rho = STAT(st, RHO);
    eta = vmin(rho * (1 / nu[KAPPA]), set(1));
    penalty(w, k->idx, k->cosine, k->cnt, inv_n, nu[DELTA], &pm, &pv);
    if (a->standardise) rs = 1.f / vsqrt(pv + EPS);
    fs = nu[OS] * eta * rs;
    ROWS scatter(w->SC + r * w->ld, k->idx + r * K, k->n[r], w->PHI + r * K, -fs[r]);
  }
  if (a->other.p) add_bias(a, w, nb, b, h, i0);
  const float *out = a->out.p + b * a->out.b + h * a->out.h + i0 * a->out.n;
  ROWS {
    x[r] = set(0);
    const float *o = out + r * a->out.n, *g = p->G + (long)(i0 + r) * e;
    int v = 0;
    if (r < rows) {
      for (; v + VL <= a->e; v += VL) x[r] += L(g + v) * *(const vf_any *)(o + v);
      for (; v < a->e; v++) x[r][0] += g[v] * o[v];
    }
  }
  dot = sums(x);
  ROWS { /* A in SC, G in DA */
    vf s0 = set(0), s1 = set(0), s2 = set(0), m = set(top[r]), f = set(fa[r]), g = set(fc[r]);
    vf mu = set(mean[r]), zi = set(iz[r]), D = set(dot[r]);
    float *SC = w->SC + r * w->ld, *RA = w->RA + r * w->ld, *RC = w->RC + r * w->ld;
    float *DA = w->DA + r * w->ld;
    const int *mask = w->seen[r];
    COLUMNS {
      vi seen = LI_ANY(mask + v);
      vf s = L(SC + v), al = set(0), co = set(0);
      if (align) {
        al = keep(L(RA + v) - mu, seen);
        s += f * al;
        S(RA + v) = al;
      }
      if (coh) {
        co = L(RC + v);
        s += g * co;
      }
      vf A = keep(vexp(s * it - m), seen) * zi, G = A * keep(L(DA + v) - D, seen) * it;
      S(SC + v) = A;
      S(DA + v) = G;
      s0 += G * al;
      s1 += G * co;
      s2 += G * keep(s, seen);
    }
    x[r] = s0;
    y[r] = s1;
    t3[r] = s2;
  }
  vf dfa = sums(x), dfc = sums(y);
  dn[TAU] -= sums(t3) * it;
  dn[OA] += dfa * ga * ra;
  dn[OC] += dfc * gc * rc;
  if (a->dother.p)
    for (int r = 0; r < rows; r++) {
      float *to = a->dother.p + b * a->dother.b + h * a->dother.h + (i0 + r) * a->dother.n;
      memset(to, 0, a->see.M * 4);
      int end = nb < a->see.M ? nb : a->see.M;
      memcpy(to + w->lo, w->DA + r * w->ld + w->lo, (end - w->lo) * 4);
    }
  if (a->sep) {
    ROWS {
      x[r] = set(0);
      NEAR {
        vf G = gather(w->DA + r * w->ld, LI(k->idx + t));
        S(w->GN + t) = G;
        x[r] += G * L(w->PHI + t);
      }
    }
    vf dfs = -sums(x);
    dn[OS] += dfs * eta * rs;
    vf dr = keep(dfs * nu[OS] * rs * (1 / nu[KAPPA]), rho < set(nu[KAPPA]));
    vf dvar = set(0); /* -2 dL/dvar / n */
    if (a->standardise) dvar = keep(dfs * fs * rs * rs * inv_n, pv > set(0));
    ds->rho += dr;
    dn[KAPPA] -= dr * rho * (1 / nu[KAPPA]);
    ROWS NEAR {
      vf phi = L(w->PHI + t), dphi = L(w->GN + t) * -fs[r] - dvar[r] * (phi - pm[r]);
      dphi = keep(dphi, LANE < seti(k->n[r] - (t - r * K)));
      vf dl = dphi * phi, da = keep(dphi * L(w->W + t), phi > set(0));
      dn[DELTA] -= da;
      S(w->DLOG + t) = plus(dl, place ? w->DLOG : NULL, t);
      S(w->DCOS + t) = plus(da, place ? w->DCOS : NULL, t);
    }
  }
  vf ka = set(0), kc = set(0);
  if (a->standardise) ka = dfa * ra * ra * inv_n, kc = dfc * rc * rc * inv_n;
  ROWS {
    vf f = set(fa[r]), g = set(fc[r]), x0 = set(ka[r]), x1 = set(kc[r]);
    float *RA = w->RA + r * w->ld, *RC = w->RC + r * w->ld;
    float *DA = w->DA + r * w->ld, *DR = w->DRC + r * w->ld;
    const int before = place > 0;
    COLUMNS {
      vf G = L(DA + v);
      if (align) S(RA + v) = f * (G - x0 * L(RA + v));
      if (coh) S(DR + v) = plus(g * (G - x1 * L(RC + v)), before ? DR : NULL, v);
    }
  }
  mix(w, nb, d, w->DA, p->K, w->O, 0);
  for (int i = 0; i < VL * d; i += VL) S(w->O + i) *= 1 / sqrtf(a->d);
  unpack(&a->dq, b, h, i0, rows, a->d, w->O, NULL);
  back(w, nb, d, w->DA, p->Q + (long)i0 * d, p->dK);
  back(w, nb, e, w->SC, p->G + (long)i0 * e, p->dV);
  if (a->align) {
    mix(w, nb, d, w->RA, p->U, w->DU, 0);
    back(w, nb, d, w->RA, U, p->dU);
    ROWS {
      x[r] = set(0);
      for (int v = 0; v < d; v += VL) x[r] += L(U + r * d + v) * L(w->DU + r * d + v);
    }
    vf slope = dfa * nu[OA] * ra * ga * (1.f - ga), il = 1.f / length;
    vf more = 2 * nu[AA] * slope * length * k->inv_cnt * k->inv_cnt - sums(x) * il;
    dn[AA] -= slope * scatter_a;
    float *dU = p->dU;
    ROWS {
      const int *j = k->idx + r * K;
      const int n = k->n[r];
      for (int v = 0; v < d; v += VL) {
        vf dsum = L(w->DU + r * d + v) * il[r] + L(U + r * d + v) * more[r];
        for (int t = 0; t < n; t++) S(dU + (long)j[t] * d + v) += dsum;
      }
    }
  }
  if (a->coh) {
    vf slope = dfc * nu[OC] * rc * gc * (1.f - gc);
    dn[AC] -= slope * extent;
    ds->extent -= keep(nu[AC] * slope, extent > set(0));
  }
}
/* what the heads share: the centre, both kernels, z and h */
APART void backward_geometry(const Args *a, Work *w, const Block *k, const float *nu, const float *c,
                              const float *st, const Slopes *ds, vf *dn) {
  const int nb = k->nb, z = w->z, i0 = k->i0, K = w->K, sep = a->sep, coh = a->coh;
  const float *z2 = w->z2;
  float *dz2 = w->dz2, *colsum = w->colsum;
  float ts = nu[TS], tc = nu[TC], is = 1 / (ts * ts), ic = 1 / (tc * tc);
  vf x[VL], y[VL], isum = STAT(st, ISUM), e2 = STAT(st, MASS), kappa = set(0);
  vf sts = set(0), stc = set(0);
  if (a->coh) {
    mix(w, nb, z, w->DRC, w->Zk, w->DM, 0);
    back(w, nb, z, w->DRC, w->C2, w->dZk);
    ROWS {
      vf s = set(0);
      const float *DR = w->DRC + r * w->ld, *RC = w->RC + r * w->ld;
      COLUMNS {
        vf q = L(DR + v);
        S(dz2 + v) -= q * (1 / tc);
        s += q * L(RC + v);
      }
      dn[TC] -= s * (1 / tc);
      y[r] = set(0);
      for (int v = 0; v < z; v += VL) {
        vf cc = L(c + r * z + v), q = L(w->DM + r * z + v) * (2 / tc) - 2.f * cc * ds->extent[r];
        S(w->DM + r * z + v) = q;
        y[r] += q * cc;
      }
    }
    kappa = sums(y) + ds->extent * e2;
    scores(w, nb, z, w->DM, w->Zt, w->DA);
  }
  if (a->sep)
    ROWS NEAR sts += L(w->DLOG + t) * gather(w->D2 + r * w->ld, LI(k->idx + t));
  ROWS {
    vf de = set(ds->extent[r]), kp = set(kappa[r]), dr = set(ds->rho[r]), im = set(isum[r]);
    vf s = set(0);
    float *D2 = w->D2 + r * w->ld, *WS = w->WS + r * w->ld, *WC = w->WC + r * w->ld;
    float *DP = w->DA + r * w->ld;
    COLUMNS {
      vf d2 = L(D2 + v), q = set(0);
      if (coh) {
        vf p = L(WC + v) * im, dl = p * (L(DP + v) + de * L(z2 + v) - kp);
        S(WC + v) = p;
        S(dz2 + v) += p * de;
        stc += dl * d2;
        q += dl * ic;
      }
      if (sep) {
        vf dw = L(WS + v) * dr;
        sts += dw * d2;
        q += dw * is;
      }
      q *= 2.f; /* -2 dL/dd2 */
      S(D2 + v) = q;
      S(colsum + v) += q;
      s += q;
    }
    x[r] = s;
  }
  dn[TC] += stc * (2 / (tc * tc * tc));
  dn[TS] += sts * (2 / (ts * ts * ts));
  if (a->sep)
    ROWS {
      NEAR x[r] += L(w->DLOG + t) * (2 * is);
      scatter(w->D2 + r * w->ld, k->idx + r * K, k->n[r], w->DLOG + r * K, 2 * is);
      scatter(w->colsum, k->idx + r * K, k->n[r], w->DLOG + r * K, 2 * is);
    }
  vf rowsum = sums(x);
  if (a->coh) back(w, nb, z, w->WC, w->DM, w->dZk);
  back(w, nb, z, w->D2, w->Zq + (long)i0 * z, w->dZk);
  float *dzq = w->dZq + (long)i0 * z;
  mix(w, nb, z, w->D2, w->Zk, dzq, 0);
  ROWS for (int v = 0; v < z; v += VL)
    S(dzq + r * z + v) -= L(w->Zq + (long)(i0 + r) * z + v) * rowsum[r];
  if (a->sep)
    for (int r = 0; r < next(a, i0); r++) {
      const int *j = k->idx + r * K;
      const int n = k->n[r], width = w->h;
      const float *Hk = w->Hk, *dcos = w->DCOS + r * K;
      float *dHk = w->dHk;
      for (int v = 0; v < width; v += VL) {
        vf s = set(0), hi = L(w->Hq + (long)(i0 + r) * width + v);
        for (int t = 0; t < n; t++) {
          s += dcos[t] * L(Hk + (long)j[t] * width + v);
          S(dHk + (long)j[t] * width + v) += dcos[t] * hi;
        }
        S(w->dHq + (long)(i0 + r) * width + v) = s;
      }
    }
}
/* coordinates that were limited have no gradient */
static void limit_back(const View *z, const View *dz, int b, int h, int rows, int width) {
  for (int i = 0; i < rows; i++) {
    const float *x = z->p + b * z->b + h * z->h + i * z->n;
    float *dx = dz->p + b * dz->b + h * dz->h + i * dz->n;
    for (int c = 0; c < width; c++)
      if (fabsf(x[c]) > Z_LIMIT) dx[c] = 0;
  }
}
static void geometry_out(const Args *a, Work *w, int b, int grp) {
  int N = a->see.N, M = a->see.M, z = w->z;
  if (a->sep || a->coh) {
    for (int i = 0; i < M; i++)
      for (int v = 0; v < z; v += VL)
        S(w->dZk + (long)i * z + v) +=
            L(w->Zk + (long)i * z + v) * (2 * w->dz2[i] - w->colsum[i]);
    unpack(&a->dzk, b, grp, 0, M, a->dz, w->dZk, a->same_z ? w->dZq : NULL);
    limit_back(&a->zk, &a->dzk, b, grp, M, a->dz);
    if (!a->same_z) {
      unpack(&a->dzq, b, grp, 0, N, a->dz, w->dZq, NULL);
      limit_back(&a->zq, &a->dzq, b, grp, N, a->dz);
    }
  }
  if (a->sep) {
    if (a->same_h) for (int i = 0; i < w->n * w->h; i += VL) S(w->dHk + i) += L(w->dHq + i);
    units_back(w->m, w->h, w->Hk, w->dHk, w->hk_inv, NULL);
    unpack(&a->dhk, b, grp, 0, M, a->da, w->dHk, NULL);
    if (!a->same_h) {
      units_back(w->n, w->h, w->Hq, w->dHq, w->hq_inv, NULL);
      unpack(&a->dhq, b, grp, 0, N, a->da, w->dHq, NULL);
    }
  }
}
static int backward_group(const Args *a, int b, int grp) {
  Work work, *w = &work;
  if (!prepare(a, w, 1)) return 0;
  int h0 = grp * w->heads, z = w->z, M = a->see.M;
  const float *nu = a->numbers + NUMBERS * h0;
  Saved s = saved_of(a, b, grp);
  vf dn[w->heads][NUMBERS];
  memset(dn, 0, sizeof dn);
  pack_geometry(a, w, b, grp, 1);
  memset(w->dZk, 0, (size_t)w->m * z * 4);
  memset(w->dHk, 0, (size_t)w->m * w->h * 4);
  memset(w->dHq, 0, (size_t)w->n * w->h * 4);
  memset(w->dz2, 0, w->ld * 4);
  memset(w->colsum, 0, w->ld * 4);
  for (int h = 0; h < w->heads; h++) pack_head(a, w, w->head + h, b, h0 + h, 1);
  for (int i0 = 0; i0 < a->see.N; i0 += VL) {
    const float *st = s.stats + (long)i0 * GEO_STATS, *c = s.centre + (long)i0 * z;
    Block k = {.i0 = i0, .idx = s.idx + (long)i0 * w->K, .cosine = s.cosine + (long)i0 * w->K};
    int nb = k.nb = block_masks(a, w, b, grp, i0);
    Slopes ds = {set(0), set(0)};
    k.inv_n = 1.f / vmax(w->count, set(1));
    k.cnt = STAT(st, COUNT);
    ROWS k.n[r] = (int)k.cnt[r];
    k.inv_cnt = 1.f / vmax(k.cnt, set(1));
    near_masks(a, w, nb, k.idx, k.n);
    if (a->sep || a->coh) {
      vf x[VL], y[VL], t[VL];
      kernels(a, w, i0, nb, nu[TS], nu[TC], x, y, t);
    }
    if (a->coh) {
      vf mean = STAT(st, MEAN_C);
      for (int i = 0; i < VL * z; i += VL) S(w->C2 + i) = L(c + i) * (2 / nu[TC]);
      scores(w, nb, z, w->C2, w->Zt, w->RC);
      const float *z2 = w->z2;
      const float itc = 1 / nu[TC];
      ROWS {
        const int *seen = w->seen[r];
        float *RC = w->RC + r * w->ld;
        vf m = set(mean[r]);
        COLUMNS S(RC + v) = keep(L(RC + v) - L(z2 + v) * itc - m, LI_ANY(seen + v));
      }
    }
    for (int h = 0; h < w->heads; h++) {
      const float *U = s.heads + h * head_size(a);
      backward_head(a, w, &k, b, h0 + h, h, st, U + (long)i0 * w->d,
                    U + (long)w->n * w->d + i0 * HEAD_STATS, dn[h], &ds);
    }
    if (a->sep || a->coh) backward_geometry(a, w, &k, nu, c, st, &ds, dn[0]);
  }
  geometry_out(a, w, b, grp);
  for (int h = 0; h < w->heads; h++) {
    Head *p = w->head + h;
    if (a->align && !a->unit.p) units_back(w->m, w->d, p->U, p->dU, p->inv, p->dK);
    unpack(&a->dk, b, h0 + h, 0, M, a->d, a->align && !a->unit.p ? p->dU : p->dK, NULL);
    if (a->align && a->unit.p) unpack(&a->dunit, b, h0 + h, 0, M, a->d, p->dU, NULL);
    unpack(&a->dv, b, h0 + h, 0, M, a->e, p->dV, NULL);
    for (int i = 0; i < NUMBERS; i++)
      a->dnumbers[((long)b * a->H + h0 + h) * NUMBERS + i] = sum(dn[h][i]);
  }
  return 1;
}

/* B * groups tasks */
TASKS(asc_forward, Args, forward_group(a, i / a->groups, i % a->groups))
TASKS(asc_backward, Args, backward_group(a, i / a->groups, i % a->groups))
