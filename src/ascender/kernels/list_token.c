/* One new token in flock scope against all keys of a cache: the common case of decoding. No gradients.

   It is the last of M keys at the positions 0 ... M - 1 and sees all of them; every head has the
   same flock. All affinities are computed (M da numbers are read), then only the rows of the flock
   are read and handed to the functions of lists.c. Keys and values are rows and may be grouped;
   z (|z|^2 as its last column) and h are stored column by column, as in token.c. One task is one
   sequence. */
typedef struct {
  int B, H, G, Z, M, d, e, dz, da, far, k, window, n_global;
  int term, standardise, local, align, sep, coh;
  View q, keys, bare, scale, v, zq, z, hq, h, out; /* scale: 1/|k_j|; else key_scale by head */
  const float *key_scale, *numbers, *bias;         /* (H), (H, LIST_NUMBERS), by distance */
  const int64_t *given; long given_b;              /* (B, far): given far keys, or NULL: ranked */
} ListToken;

/* writes the keys of the flock into idx (window, globals, far keys); returns how many */
static int flock_of(const ListToken *a, int b, int *idx, int *hit, float *rank, float *x) {
  int M = a->M, first = M - 1 - a->window, g = a->n_global, count = 0;
  if (first < 0) first = 0;
  if (g > first) g = first;
  for (int j = first; j < M; j++) idx[count++] = j;
  for (int j = 0; j < g; j++) idx[count++] = j;
  if (a->given) {
    const int64_t *list = a->given + b * a->given_b;
    for (int m = 0; m < a->far; m++)
      if (list[m] >= g && list[m] < first) idx[count++] = list[m];
    return count;
  }
  if (first - g <= a->far) {
    for (int j = g; j < first; j++) idx[count++] = j;
    return count;
  }
  if (!a->far) return count;
  float hq[a->da], root = 1 / sqrtf(a->da);
  const float *from = at(&a->hq, b, 0);
  for (int c = 0; c < a->da; c++) hq[c] = from[c] * root;
  int n = round_up(first, 16 * VL);
  columns_dot(at(&a->h, b, 0), a->h.n, a->da, hq, first, rank);
  for (int t = 0; t < n; t += VL) {
    vi place = LANE + seti(t), age = seti(M - 1) - place;
    vf y = t < first ? L(rank + t) : set(0);
    if (a->bias && t < first) y = with_bias(y, age, a->bias);
    S(rank + t) = choose((place >= seti(g)) & (place < seti(first)), aged(y, age, 0), set(-INFINITY));
  }
  return count + largest(rank, n, a->far, hit, x, idx + count);
}
/* copies n rows of t, those in idx, to `to` */
static void rows_at(const View *t, int b, int h, const int *idx, int n, int w, float *to) {
  const float *from = at(t, b, h);
  for (int i = 0; i < n; i++) memcpy(to + (long)i * w, from + (long)idx[i] * t->n, w * 4);
}
/* the same for t stored by column; rows are padded with 0 from w to `width` */
static void columns_at(const View *t, int b, int h, const int *idx, int n, int w, int width, float *to) {
  const float *from = at(t, b, h);
  memset(to, 0, (size_t)n * width * 4);
  for (int c = 0; c < w; c++)
    for (int i = 0; i < n; i++) to[(long)i * width + c] = from[c * t->n + idx[i]];
}
static int list_token_task(const ListToken *a, int b) {
  int H = a->H, G = a->G, Z = a->Z, most = a->window + 1 + a->n_global + a->far;
  size_t N = round_up(a->M, 16 * VL) + VL, dz = padded(a->dz), da = padded(a->da);
  if (most > a->M) most = a->M;
  ListArgs l = {.L = most};
  l.B = l.N = 1, l.H = H, l.G = G, l.d = a->d, l.e = a->e, l.dz = dz, l.da = da, l.causal = 1;
  l.term = a->term, l.standardise = a->standardise, l.local = a->local;
  l.align = a->align, l.sep = a->sep, l.coh = a->coh;
  size_t n = most + 16, wide = 2 * G * n * a->d + G * n * a->e + Z * n * dz + n * da;
  Scratch c = scratch(rows_size(&l, 1) + 4 * (3 * N + wide + (G + 8) * n + H * (dz + 2) + 1024));
  if (!c.at) return 0;
  ListRow r;
  rows_room(&l, &r, 1, &c);
  float *rank = take(&c, N), *x = take(&c, N);
  int *hit = take(&c, N), *idx = take(&c, n), *zero = take(&c, 16), *sizes = take(&c, H);
  n = l.M = l.L = flock_of(a, b, idx, hit, rank, x);
  float *k = take(&c, G * n * a->d), *v = take(&c, G * n * a->e), *z = take(&c, Z * n * dz);
  float *bare = a->bare.p ? take(&c, G * n * a->d) : k, *h = take(&c, n * da);
  float *inv = take(&c, H * n), *ihk = take(&c, n), *zq = take(&c, Z * dz);
  int64_t *list = take(&c, 2 * n);
  for (int g = 0; g < G; g++) {
    rows_at(&a->keys, b, g, idx, n, a->d, k + g * n * a->d);
    if (a->bare.p) rows_at(&a->bare, b, g, idx, n, a->d, bare + g * n * a->d);
    rows_at(&a->v, b, g, idx, n, a->e, v + g * n * a->e);
    if (a->scale.p) for (size_t t = 0; t < n; t++) inv[g * n + t] = at(&a->scale, b, g)[idx[t]];
    else for (size_t t = 0; t < n; t++) inv[g * n + t] = a->key_scale[g * (H / G)];
  }
  memset(zq, 0, Z * dz * 4);
  for (int g = 0; g < Z; g++) {
    columns_at(&a->z, b, g, idx, n, a->dz, dz, z + g * n * dz);
    memcpy(zq + g * dz, at(&a->zq, b, g), a->dz * 4);
  }
  columns_at(&a->h, b, 0, idx, n, a->da, da, h);
  for (size_t t = 0; t < n; t++) list[t] = t;
  for (int m = 0; m < H; m++) sizes[m] = a->k;
  zero[0] = a->M - 1;
  l.q = a->q, l.q.p = at(&a->q, b, 0);
  l.k = (View){k, 0, n * a->d, a->d}, l.unit = (View){bare, 0, n * a->d, a->d};
  l.zq = (View){zq, 0, Z > 1 ? dz : 0, 0}, l.zk = (View){z, 0, Z > 1 ? n * dz : 0, dz};
  l.hq = (View){at(&a->hq, b, 0), 0, 0, 0}, l.hk = (View){h, 0, 0, da};
  l.list = list, l.p = zero, l.j = idx, l.sizes = sizes, l.numbers = a->numbers, l.bias = a->bias;
  l.da = a->da; /* the width of hq; the rest of hk's rows is not read */
  affinity_lengths(&l, 0, 0, ihk);
  row_neighbours(&l, &r, 0, 0, 0, ihk);
  for (int m = 0; m < H; m++) {
    int g = m / (H / G);
    row_weights(&l, &r, 0, m, 0, inv + g * n);
    mix_keys(n, r.key, r.A, v + g * n * a->e, a->e, a->e, at(&a->out, b, m));
  }
  return 1;
}
TASKS(asc_list_token, ListToken, list_token_task(a, i))
