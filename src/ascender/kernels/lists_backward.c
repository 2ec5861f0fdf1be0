/* The backward of attention over index lists: a row is computed again (lists.c), then its gradients.

   One task is one key head with the query heads that share it. Names as in lists.c. */

/* dy_key[t] += the sum of f[m][t] x[m], and own[t] y_key[t] where own is given */
INLINE void scatter_keys(const ListRow *r, int M, const float *const *f, const float *const *x,
                    const float *own, const float *y, long stride, float *dy, long dstride, int w) {
  for (int t = 0; t < r->n; t++) {
    const float *at = own ? y + r->key[t] * stride : NULL;
    float *to = dy + r->key[t] * dstride;
    int c = 0;
    for (; c + VL <= w; c += VL) {
      vf s = X(to + c);
      for (int m = 0; m < M; m++) s += f[m][t] * X(x[m] + c);
      if (own) s += own[t] * X(at + c);
      *(vf_any *)(to + c) = s;
    }
    for (; c < w; c++) {
      for (int m = 0; m < M; m++) to[c] += f[m][t] * x[m][c];
      if (own) to[c] += own[t] * at[c];
    }
  }
}
/* dx from f G, the gradient of x~ */
static void standard_back(int on, const float *xs, float is, float f, const float *G, int n, float *dx) {
  float mean = 0, along = 0;
  if (on) {
    vf s = {0}, a = {0};
    EACH(t, n) s += L(G + t), a += L(G + t) * L(xs + t);
    mean = sum(s) / n, along = sum(a) / n;
  }
  EACH(t, n) S(dx + t) = within(f * is * (L(G + t) - mean - L(xs + t) * along), t, n);
}
/* the gradient of cos and g: of h */
static void back_affinity(const ListArgs *a, ListRow *r, int b, int h, int i, const float *ihk, float omega,
                          float *dbias) {
  const float *hq = a->hq.p + b * a->hq.b + h * a->hq.h + i * a->hq.n;
  const float *hk = a->hk.p + b * a->hk.b + h * a->hk.h;
  float *dhq = a->dhq.p + b * a->dhq.b + h * a->dhq.h + i * a->dhq.n;
  float *dhk = a->dhk.p + b * a->dhk.b + h * a->dhk.h;
  float length = sqrtf(dot1(hq, hq, a->da)), ihq = 1 / (length < FLOOR ? FLOOR : length);
  float root = 1 / sqrtf(a->da), *ddot = r->dx, *own = r->tmp;
  if (!a->term) omega = 0;
  if (dbias && a->term)
    for (int t = 0; t < r->n; t++) {
      int far = r->far[t] > MAX_DISTANCE ? MAX_DISTANCE : r->far[t];
      dbias[(far < -MAX_DISTANCE ? -MAX_DISTANCE : far) + MAX_DISTANCE] += omega * r->G[t];
    }
  EACH(t, r->n) {
    vf ik = gather(ihk, LI(r->key + t)), dcos = L(r->dcos + t);
    S(ddot + t) = omega * root * L(r->G + t) + dcos * ihq * ik;
    S(own + t) = keep(-dcos * L(r->cos + t) * ik * ik, ik < set(1 / FLOOR));
  }
  float along = inner(r->dcos, r->cos, r->n);
  mix_keys(r->n, r->key, ddot, hk, a->hk.n, a->da, r->du);
  axpy(1, r->du, dhq, a->da);
  if (along && length >= FLOOR) axpy(-along * ihq * ihq, hq, dhq, a->da);
  scatter_keys(r, 1, (const float *[]){ddot}, (const float *[]){hq}, own, hk, a->hk.n, dhk, a->dhk.n, a->da);
}
static void back_alignment(const ListArgs *a, ListRow *r, int b, int kv, const float *w, const float *inv,
                           float *dw) {
  const float *keys = a->unit.p ? a->unit.p + b * a->unit.b + kv * a->unit.h
                                : a->k.p + b * a->k.b + kv * a->k.h;
  long ks = a->unit.p ? a->unit.n : a->k.n;
  float *dkeys = a->dunit.p + b * a->dunit.b + kv * a->dunit.h, *ones = r->rank;
  float df = inner(r->G, r->xa, r->n);
  standard_back(a->standardise, r->xa, r->isa, r->fa, r->G, r->n, r->dx);
  float dy = df * w[OA] * r->gamma_a * (1 - r->gamma_a);
  dw[OA] += df * r->gamma_a;
  dw[AA] -= dy * r->var_a;
  int count = r->count ? r->count : 1;
  float dlen = dy * w[AA] * 2 * r->len / ((float)count * count);
  float along = inner(r->dx, r->ra, r->n); /* u.du */
  EACH(t, r->n) {
    S(r->tmp + t) = L(r->dx + t) * gather(inv, LI(r->key + t));
    S(ones + t) = keep(set(1), LI(r->near + t));
  }
  mix_keys(r->n, r->key, r->tmp, keys, ks, a->d, r->du);
  int real = r->len >= FLOOR;
  float f = 1 / (real ? r->len : FLOOR), back = real ? dlen - along * f : 0;
  for (int c = 0; c < a->d; c++) r->du[c] = r->du[c] * f + back * r->u[c]; /* ds */
  scatter_keys(r, 2, (const float *[]){r->dx, ones}, (const float *[]){r->u, r->du}, NULL, NULL, 0, dkeys,
          a->dunit.n, a->d);
}
static void back_separation(const ListArgs *a, ListRow *r, const float *w, float *dw) {
  float df = inner(r->G, r->xs, r->n), t2 = 1 / (w[TS] * w[TS]), drho = 0;
  standard_back(a->standardise, r->xs, r->iss, r->fs, r->G, r->n, r->dx);
  dw[OS] += df * r->eta;
  if (r->rho / w[KAPPA] <= 1) {
    drho = df * w[OS] / w[KAPPA];
    dw[KAPPA] -= drho * r->rho / w[KAPPA];
  }
  vf ddelta = {0}, dtau = {0};
  EACH(t, r->n) {
    vf ws = L(r->ws + t), over = L(r->cos + t) - w[DELTA];
    vf dphi = keep(-L(r->dx + t), LI(r->near + t) & (over > 0)); /* r = -phi */
    vf dws = keep(set(drho), crowd(a, r, t)) + dphi * over, dcos = dphi * ws, dd2 = dws * ws * t2;
    S(r->dcos + t) = dcos;
    S(r->dd2 + t) = L(r->dd2 + t) - dd2;
    ddelta += dcos;
    dtau += dd2 * L(r->d2 + t);
  }
  dw[DELTA] -= sum(ddelta);
  dw[TS] += 2 / w[TS] * sum(dtau);
}
static void back_cohesion(const ListArgs *a, ListRow *r, const float *zk, const float *w, float *dw) {
  int n = r->n;
  float df = inner(r->G, r->xc, n), t2 = 1 / (w[TC] * w[TC]);
  standard_back(a->standardise, r->xc, r->isc, r->fc, r->G, n, r->dx);
  float dy = df * w[OC] * r->gamma_c * (1 - r->gamma_c), dvar = -dy * w[AC];
  dw[OC] += df * r->gamma_c;
  dw[AC] -= dy * r->var_c;
  dw[TC] -= inner(r->dx, r->rc, n) / w[TC];
  vf all = {0}, mean = {0}, dtau = {0};
  EACH(t, n) {
    vf de = 2 * (dvar * L(r->wc + t) - L(r->dx + t) / w[TC]);
    S(r->de + t) = de;
    all += de;
  }
  mix_keys(n, r->key, r->de, zk, a->zk.n, a->dz, r->dc);
  float total = sum(all);
  for (int c = 0; c < a->dz; c++) r->dc[c] = total * r->c[c] - r->dc[c];
  dots(r, r->dc, zk, a->zk.n, a->dz, r->tmp);
  EACH(t, n) { /* dwc */
    vf x = L(r->tmp + t) - dvar * w[TC] * L(r->rc + t);
    S(r->tmp + t) = x;
    mean += L(r->wc + t) * x;
  }
  float middle = sum(mean);
  EACH(t, n) {
    vf dl = L(r->wc + t) * (L(r->tmp + t) - middle) * t2;
    S(r->dd2 + t) = L(r->dd2 + t) - dl;
    dtau += dl * L(r->d2 + t);
  }
  dw[TC] += 2 / w[TC] * sum(dtau);
}
/* the gradient of d2, and of the centre where there is cohesion: of z */
static void back_places(const ListArgs *a, ListRow *r, int b, int h, int i) {
  const float *zq = a->zq.p + b * a->zq.b + h * a->zq.h + i * a->zq.n;
  const float *zk = a->zk.p + b * a->zk.b + h * a->zk.h;
  float *dzq = a->dzq.p + b * a->dzq.b + h * a->dzq.h + i * a->dzq.n;
  float *dzk = a->dzk.p + b * a->dzk.b + h * a->dzk.h, *pull = r->tmp, *away = r->dx, *less = r->rank;
  vf all = {0};
  EACH(t, r->n) {
    vf f = 2 * L(r->dd2 + t), de = a->coh ? L(r->de + t) : set(0);
    S(away + t) = -f;
    S(pull + t) = f + de;
    S(less + t) = -de;
    all += f;
  }
  mix_keys(r->n, r->key, away, zk, a->zk.n, a->dz, r->du);
  axpy(1, r->du, dzq, a->dz);
  axpy(sum(all), zq, dzq, a->dz);
  if (a->coh)
    scatter_keys(r, 3, (const float *[]){away, less, r->wc}, (const float *[]){zq, r->c, r->dc}, pull, zk,
            a->zk.n, dzk, a->dzk.n, a->dz);
  else
    scatter_keys(r, 1, (const float *[]){away}, (const float *[]){zq}, pull, zk, a->zk.n, dzk, a->dzk.n,
            a->dz);
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
  float scale = 1 / sqrtf(a->d);
  dots(r, g, v, a->v.n, a->e, r->G);
  float delta = inner(r->A, r->G, n);
  vf dtau = {0};
  EACH(t, n) {
    vf ds = within(L(r->A + t) * (L(r->G + t) - delta), t, n);
    dtau += ds * L(r->S + t);
    S(r->G + t) = ds / w[TAU];
    S(r->tmp + t) = ds * (scale / w[TAU]);
    S(r->dd2 + t) = S(r->dcos + t) = set(0);
  }
  dw[TAU] -= sum(dtau) / w[TAU];
  mix_keys(n, r->key, r->tmp, k, a->k.n, a->d, r->du);
  axpy(1, r->du, dq, a->d);
  scatter_keys(r, 1, (const float *[]){r->A}, (const float *[]){g}, NULL, NULL, 0, dv, a->dv.n, a->e);
  scatter_keys(r, 1, (const float *[]){r->tmp}, (const float *[]){q}, NULL, NULL, 0, dk, a->dk.n, a->d);
  if (a->term) dw[OAFF] += inner(r->G, r->g, n);
  if (a->dother.p) {
    const int64_t *list = a->list + b * a->list_b + h * a->list_h + i * a->list_n;
    float *to = a->dother.p + b * a->dother.b + h * a->dother.h + i * a->dother.n;
    for (int t = 0, m = 0; t < a->L; t++) to[t] = list[t] < 0 ? 0 : r->G[m++];
  }
  if (a->align) back_alignment(a, r, b, kv, w, inv, dw);
  if (a->sep) back_separation(a, r, w, dw);
  if (a->coh) back_cohesion(a, r, a->zk.p + b * a->zk.b + h * a->zk.h, w, dw);
  if (a->sep || a->coh) back_places(a, r, b, h, i);
  if (a->sep || a->term)
    back_affinity(a, r, b, h, i, ihk, w[OAFF],
                  a->dbias ? a->dbias + (long)(b * a->H + h) * (2 * MAX_DISTANCE + 1) : NULL);
}
static int list_backward_task(const ListArgs *a, int task) {
  int b = task / a->G, kv = task % a->G, share = a->H / a->G;
  Scratch c = scratch(rows_size(a, 1) + 8 * (a->M + 64));
  if (!c.at) return 0;
  ListRow r;
  float *inv = take(&c, a->M), *ihk = take(&c, a->M);
  rows_room(a, &r, 1, &c);
  key_lengths(a, b, kv, inv);
  for (int h = kv * share; h < (kv + 1) * share; h++) {
    if (h == kv * share || a->hk.h) affinity_lengths(a, b, h, ihk);
    for (int i = 0; i < a->N; i++) {
      row_neighbours(a, &r, b, h, i, ihk);
      if (!r.n) continue;
      row_weights(a, &r, b, h, i, inv);
      row_backward(a, &r, b, h, i, inv, ihk);
    }
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
TASKS(asc_list_backward, ListArgs, list_backward_task(a, i))
