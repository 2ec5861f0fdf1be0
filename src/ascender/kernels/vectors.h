/* Vectors of VL floats, and small matrix products that stay in the cache.

   VL is 16 with AVX-512, 8 with AVX, else 4. Rows are processed in blocks of VL, so that a
   quantity of each row (a mean, a gate) is one vector whose lanes are rows. Matrices are padded to
   multiples of 16 columns.

   No -ffast-math: it would link code that changes how the whole process treats denormals. So
   reductions and exp are written here, and denormals are flushed inside a call only. */
#ifndef ASC_VECTORS_H
#define ASC_VECTORS_H
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VL 16
#elif defined(__AVX__)
#define VL 8
#else
#define VL 4
#endif

typedef float vf __attribute__((vector_size(4 * VL), may_alias));
typedef int vi __attribute__((vector_size(4 * VL), may_alias));
typedef float vf_any __attribute__((vector_size(4 * VL), aligned(4), may_alias)); /* unaligned */
typedef int vi_any __attribute__((vector_size(4 * VL), aligned(4), may_alias));
#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline))
#define ALIGNED __attribute__((aligned(64)))
#define L(p) (*(const vf *)(p))
#define S(p) (*(vf *)(p))
#define LI(p) (*(const vi *)(p))
#define LI_ANY(p) (*(const vi_any *)(p))

static const int LANES[16] ALIGNED = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#define LANE LI(LANES)
INLINE vf set(float x) { return x - (vf){0}; }
INLINE vi seti(int x) { return x - (vi){0}; }
INLINE vf choose(vi m, vf a, vf b) { return (vf)((m & (vi)a) | (~m & (vi)b)); }
INLINE vf keep(vf a, vi m) { return (vf)((vi)a & m); } /* a where m, else 0 */
INLINE vf plus(vf x, const float *more, long at) { return more ? (vf)(x + L(more + at)) : (vf)x; }
INLINE int round_up(int x, int to) { return (x + to - 1) / to * to; }

/* sums(a), maxima(a): lane r is the sum or maximum of the VL numbers of a[r] */
#if defined(__AVX512F__)
INLINE vf vmax(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE vf vmin(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE vf vsqrt(vf a) { return (vf)_mm512_sqrt_ps((__m512)a); }
INLINE unsigned bits(vi m) { return _mm512_cmp_epi32_mask((__m512i)m, _mm512_setzero_si512(), _MM_CMPINT_NE); }
INLINE vf gather(const float *p, vi i) { return (vf)_mm512_i32gather_ps((__m512i)i, p, 4); }
#define REDUCE(NAME, OP)                                                                         \
  INLINE vf NAME(const vf *a) {                                                                  \
    __m512 u[4], x, y;                                                                           \
    for (int b = 0; b < 4; b++) {                                                                \
      __m512 p = (__m512)a[4 * b], q = (__m512)a[4 * b + 1], r = (__m512)a[4 * b + 2],           \
             s = (__m512)a[4 * b + 3];                                                           \
      __m512d t = (__m512d)OP(_mm512_unpacklo_ps(p, q), _mm512_unpackhi_ps(p, q));               \
      __m512d w = (__m512d)OP(_mm512_unpacklo_ps(r, s), _mm512_unpackhi_ps(r, s));               \
      u[b] = OP((__m512)_mm512_unpacklo_pd(t, w), (__m512)_mm512_unpackhi_pd(t, w));             \
    }                                                                                            \
    x = OP(_mm512_shuffle_f32x4(u[0], u[1], 0x88), _mm512_shuffle_f32x4(u[0], u[1], 0xdd));      \
    y = OP(_mm512_shuffle_f32x4(u[2], u[3], 0x88), _mm512_shuffle_f32x4(u[2], u[3], 0xdd));      \
    return (vf)OP(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xdd));           \
  }
REDUCE(sums, _mm512_add_ps)
REDUCE(maxima, _mm512_max_ps)
#elif defined(__AVX__)
INLINE vf vmax(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vf vmin(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE vf vsqrt(vf a) { return (vf)_mm256_sqrt_ps((__m256)a); }
INLINE unsigned bits(vi m) { return _mm256_movemask_ps((__m256)m); }
#define REDUCE(NAME, OP)                                                                         \
  INLINE vf NAME(const vf *a) {                                                                  \
    __m256 u[2];                                                                                 \
    for (int b = 0; b < 2; b++) {                                                                \
      __m256 p = (__m256)a[4 * b], q = (__m256)a[4 * b + 1], r = (__m256)a[4 * b + 2],           \
             s = (__m256)a[4 * b + 3];                                                           \
      __m256d t = (__m256d)OP(_mm256_unpacklo_ps(p, q), _mm256_unpackhi_ps(p, q));               \
      __m256d w = (__m256d)OP(_mm256_unpacklo_ps(r, s), _mm256_unpackhi_ps(r, s));               \
      u[b] = OP((__m256)_mm256_unpacklo_pd(t, w), (__m256)_mm256_unpackhi_pd(t, w));             \
    }                                                                                            \
    return (vf)OP(_mm256_permute2f128_ps(u[0], u[1], 0x20),                                      \
                  _mm256_permute2f128_ps(u[0], u[1], 0x31));                                     \
  }
REDUCE(sums, _mm256_add_ps)
REDUCE(maxima, _mm256_max_ps)
#if defined(__AVX2__)
INLINE vf gather(const float *p, vi i) { return (vf)_mm256_i32gather_ps(p, (__m256i)i, 4); }
#else
INLINE vf gather(const float *p, vi i) {
  vf a;
  for (int r = 0; r < VL; r++) a[r] = p[i[r]];
  return a;
}
#endif
#else
INLINE vf vmax(vf a, vf b) { return choose(a > b, a, b); }
INLINE vf vmin(vf a, vf b) { return choose(a < b, a, b); }
INLINE vf vsqrt(vf a) {
  for (int r = 0; r < VL; r++) a[r] = sqrtf(a[r]);
  return a;
}
INLINE unsigned bits(vi m) {
  unsigned b = 0;
  for (int r = 0; r < VL; r++) b |= (unsigned)(m[r] != 0) << r;
  return b;
}
INLINE vf gather(const float *p, vi i) {
  vf a;
  for (int r = 0; r < VL; r++) a[r] = p[i[r]];
  return a;
}
INLINE vf sums(const vf *a) {
  vf s;
  for (int r = 0; r < VL; r++) s[r] = (a[r][0] + a[r][1]) + (a[r][2] + a[r][3]);
  return s;
}
INLINE vf maxima(const vf *a) {
  vf s;
  for (int r = 0; r < VL; r++) {
    s[r] = a[r][0];
    for (int j = 1; j < VL; j++) s[r] = a[r][j] > s[r] ? a[r][j] : s[r];
  }
  return s;
}
#endif
INLINE float sum(vf a) {
  float s = 0;
  for (int r = 0; r < VL; r++) s += a[r];
  return s;
}
INLINE vf vexp(vf x) { /* for x <= 88; below -87 as at -87: 1e-38; NaN stays NaN */
  vf y = vmax(set(-87.33f), x), t = y * 1.44269504f + 12582912.f, n = t - 12582912.f;
  vf r = y - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  vf p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + (r + 1.f);
  return (vf)((vi)p + ((vi)t << 23));
}
INLINE vf sigmoid(vf x) { return 1.f / (1.f + vexp(vmin(set(80.f), -x))); }

/* ---- products: C[i][:] (+)= sum_k A[i*si + k*sk] B[k][:] ---- */
#if defined(__AVX512F__)
#define HOLD(x) __asm__("" : "+v"(x)) /* load once: gcc would load it again for every row */
#elif defined(__AVX__)
#define HOLD(x) __asm__("" : "+x"(x))
#else
#define HOLD(x)
#endif
#define UNROLL _Pragma("GCC unroll 16")
#define PRODUCT(R, W) /* R rows times W vectors, accumulated in registers */                      \
  INLINE void product##R##x##W(int K, const float *A, long si, long sk, const float *B, long ldb, \
                               float *C, long ldc, int add) {                                     \
    vf c[R][W];                                                                                   \
    UNROLL for (int r = 0; r < R; r++)                                                            \
      UNROLL for (int w = 0; w < W; w++) c[r][w] = add ? L(C + r * ldc + VL * w) : set(0);        \
    for (int k = 0; k < K; k++) {                                                                 \
      vf b[W];                                                                                    \
      UNROLL for (int w = 0; w < W; w++) { b[w] = L(B + k * ldb + VL * w); HOLD(b[w]); }          \
      UNROLL for (int r = 0; r < R; r++) {                                                        \
        vf a = set(A[r * si + k * sk]);                                                           \
        UNROLL for (int w = 0; w < W; w++) c[r][w] += a * b[w];                                   \
      }                                                                                           \
    }                                                                                             \
    UNROLL for (int r = 0; r < R; r++)                                                            \
      UNROLL for (int w = 0; w < W; w++) S(C + r * ldc + VL * w) = c[r][w];                       \
  }
#define SWEEP(R, W)                                                                               \
  for (; n + W * VL <= N; n += W * VL)                                                            \
    for (int m = 0; m < M; m += R)                                                                \
      product##R##x##W(K, A + m * si, si, sk, B + n, ldb, C + m * ldc + n, ldc, add);
#if defined(__AVX512F__)
PRODUCT(16, 1)
PRODUCT(8, 2)
PRODUCT(4, 4)
#elif defined(__AVX__)
PRODUCT(4, 2)
PRODUCT(8, 1)
#else
PRODUCT(4, 2)
PRODUCT(4, 1)
#endif
/* M and N multiples of VL */
INLINE void product(int M, int N, int K, const float *A, long si, long sk, const float *B, long ldb,
                    float *C, long ldc, int add) {
  int n = 0;
#if defined(__AVX512F__)
  SWEEP(4, 4) SWEEP(8, 2) SWEEP(16, 1)
#elif defined(__AVX__)
  SWEEP(4, 2) SWEEP(8, 1)
#else
  SWEEP(4, 2) SWEEP(4, 1)
#endif
}

/* ---- transposes: y[c][i] = x[i][c] ---- */
#if defined(__AVX512F__)
static void tile(const float *x, long ldx, float *y, long ldy) {
  __m512 a[16], b[16];
  for (int i = 0; i < 16; i++) a[i] = _mm512_loadu_ps(x + i * ldx);
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
  }
#define PAIRS(f, p, q) (__m512) f((__m512d)(p), (__m512d)(q))
  for (int i = 0; i < 16; i += 4) {
    a[i] = PAIRS(_mm512_unpacklo_pd, b[i], b[i + 2]);
    a[i + 1] = PAIRS(_mm512_unpackhi_pd, b[i], b[i + 2]);
    a[i + 2] = PAIRS(_mm512_unpacklo_pd, b[i + 1], b[i + 3]);
    a[i + 3] = PAIRS(_mm512_unpackhi_pd, b[i + 1], b[i + 3]);
  }
  for (int i = 0; i < 4; i++) {
    b[i] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88);
    b[i + 4] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd);
    b[i + 8] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88);
    b[i + 12] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);
  }
  for (int i = 0; i < 8; i++) {
    _mm512_storeu_ps(y + i * ldy, _mm512_shuffle_f32x4(b[i], b[i + 8], 0x88));
    _mm512_storeu_ps(y + (i + 8) * ldy, _mm512_shuffle_f32x4(b[i], b[i + 8], 0xdd));
  }
}
#elif defined(__AVX__)
static void tile(const float *x, long ldx, float *y, long ldy) {
  __m256 a[8], b[8];
  for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(x + i * ldx);
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
  }
#define PAIRS(f, p, q) (__m256) f((__m256d)(p), (__m256d)(q))
  for (int i = 0; i < 8; i += 4) {
    a[i] = PAIRS(_mm256_unpacklo_pd, b[i], b[i + 2]);
    a[i + 1] = PAIRS(_mm256_unpackhi_pd, b[i], b[i + 2]);
    a[i + 2] = PAIRS(_mm256_unpacklo_pd, b[i + 1], b[i + 3]);
    a[i + 3] = PAIRS(_mm256_unpackhi_pd, b[i + 1], b[i + 3]);
  }
  for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps(y + i * ldy, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
    _mm256_storeu_ps(y + (i + 4) * ldy, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
  }
}
#else
static void tile(const float *x, long ldx, float *y, long ldy) {
  for (int i = 0; i < VL; i++)
    for (int c = 0; c < VL; c++) y[c * ldy + i] = x[i * ldx + c];
}
#endif
static void transpose(int n, int w, const float *x, long ldx, float *y, long ldy) {
  for (int i = 0; i < n; i += VL)
    for (int c = 0; c < w; c += VL) tile(x + i * ldx + c, ldx, y + c * ldy + i, ldy);
}

/* ---- arrays of any length ---- */
INLINE vf load(const float *p, int left) { /* VL numbers, 0 past the end */
  if (left >= VL) return *(const vf_any *)p;
  vf x = {0};
  for (int r = 0; r < left; r++) x[r] = p[r];
  return x;
}
static float total(const float *x, int M) {
  vf s = {0};
  for (int t = 0; t < M; t += VL) s += load(x + t, M - t);
  return sum(s);
}

/* ---- denormals are 0 while a call runs ---- */
#if defined(__x86_64__)
#define FLUSH_DENORMALS unsigned csr = _mm_getcsr(); _mm_setcsr(csr | 0x8040);
#define RESTORE_DENORMALS _mm_setcsr(csr);
#else
#define FLUSH_DENORMALS
#define RESTORE_DENORMALS
#endif

/* ---- a kernel as it is called: tasks from ... to - 1; 0 where there was no memory ---- */
#define TASKS(NAME, ARGS, TASK)                                                                   \
  int NAME(const ARGS *a, int from, int to) {                                                     \
    int ok = 1;                                                                                   \
    FLUSH_DENORMALS                                                                               \
    for (int i = from; i < to && ok; i++) ok = TASK;                                              \
    RESTORE_DENORMALS                                                                             \
    return ok;                                                                                    \
  }

/* ---- a thread's scratch memory: grows, is kept, and is handed out front to back ---- */
typedef struct { char *at, *end; } Scratch;
static __thread char *scratch_memory;
static __thread size_t scratch_size;
static Scratch scratch(size_t bytes) { /* at NULL where there is no memory */
  bytes = (bytes + 4095) & ~(size_t)4095;
  if (bytes > scratch_size) {
    free(scratch_memory);
    scratch_memory = aligned_alloc(4096, bytes);
    scratch_size = scratch_memory ? bytes : 0;
  }
  return (Scratch){scratch_memory, scratch_memory + bytes};
}
static void *take(Scratch *s, size_t floats) {
  void *p = s->at;
  s->at += (floats * 4 + 63) & ~(size_t)63;
  return p;
}
#endif
