/* The build for x86-64 with AVX2, FMA and F16C, chosen at run time.
 *
 * Sums are folded in the same order as in baseline.c, but by fused multiply-add (one rounding).
 */
#include "kernel.h"

#if defined(__x86_64__) || defined(_M_X64)

#include <immintrin.h> /* headers first: what follows is compiled for AVX2 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

#define ENGINE engine_avx2
#define ENGINE_NAME "avx2"

typedef __m256d D4;
static inline D4 d4_set(double a) { return _mm256_set1_pd(a); }
static inline D4 d4_load(const double *p) { return _mm256_loadu_pd(p); }
static inline void d4_store(double *p, D4 a) { _mm256_storeu_pd(p, a); }
static inline D4 d4_add(D4 a, D4 b) { return _mm256_add_pd(a, b); }
static inline D4 d4_sub(D4 a, D4 b) { return _mm256_sub_pd(a, b); }
static inline D4 d4_mul(D4 a, D4 b) { return _mm256_mul_pd(a, b); }
static inline D4 d4_max(D4 a, D4 b) { return _mm256_max_pd(a, b); }
static inline D4 d4_min(D4 a, D4 b) { return _mm256_min_pd(a, b); }
static inline int d4_ge(D4 a, D4 b) { return _mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_GE_OQ)); }
static inline D4 d4_gather(float *const rows[LANES], int64_t t) {
    return _mm256_setr_pd(rows[0][t], rows[1][t], rows[2][t], rows[3][t]);
}
#define D4_GATHER_MANY 4
static inline void d4_gather_many(float *const rows[LANES], int64_t t, D4 out[4]) {
    __m128 a = _mm_loadu_ps(rows[0] + t), b = _mm_loadu_ps(rows[1] + t);
    __m128 c = _mm_loadu_ps(rows[2] + t), d = _mm_loadu_ps(rows[3] + t);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    out[0] = _mm256_cvtps_pd(a), out[1] = _mm256_cvtps_pd(b);
    out[2] = _mm256_cvtps_pd(c), out[3] = _mm256_cvtps_pd(d);
}

static inline __m256 half8(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

static void widen(const uint16_t *in, float *out, int64_t n) {
    int64_t j = 0;
    for (; j + 8 <= n; j += 8) _mm256_storeu_ps(out + j, half8(in + j));
    if (j < n) {
        uint16_t rest[8] = {0};
        float wide[8];
        memcpy(rest, in + j, (size_t)(n - j) * 2);
        _mm256_storeu_ps(wide, half8(rest));
        memcpy(out + j, wide, (size_t)(n - j) * 4);
    }
}

/* Adds the 16 partial sums of four dot products: j with j + 8, then neighbours, three times. */
static inline __m128 unfold(__m256 a, __m256 b, __m256 c, __m256 e) {
    const __m256 sum = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, e));
    return _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
}

/* Σ x² and Σ x·q for four queries at once, each in 2 × 8 partial sums held in registers.
 * Fetching into L2 from well ahead lets reading and arithmetic overlap; nearer, or into L1, the
 * two take turns. */
#define AHEAD 16384
#define LINE 64
#define TAKE(A, B, Q)                                                 \
    A = _mm256_fmadd_ps(x0, _mm256_load_ps((Q) + j), A);              \
    B = _mm256_fmadd_ps(x1, _mm256_load_ps((Q) + j + 8), B)
#define STEP(X0, X1)                                                  \
    do {                                                              \
        const __m256 x0 = (X0), x1 = (X1);                            \
        n0 = _mm256_fmadd_ps(x0, x0, n0);                             \
        n1 = _mm256_fmadd_ps(x1, x1, n1);                             \
        TAKE(a0, a1, q);                                              \
        TAKE(b0, b1, q + stride);                                     \
        TAKE(c0, c1, q + 2 * stride);                                 \
        TAKE(e0, e1, q + 3 * stride);                                 \
    } while (0)
#define FOLD(NAME, TYPE, LOAD8, REST)                                                             \
    static void NAME(const TYPE *x, int64_t d, const float *q, int64_t stride, double *sums) {    \
        const __m256 zero = _mm256_setzero_ps();                                                  \
        __m256 n0 = zero, n1 = zero, a0 = zero, a1 = zero, b0 = zero, b1 = zero;                  \
        __m256 c0 = zero, c1 = zero, e0 = zero, e1 = zero;                                        \
        int64_t j = 0;                                                                            \
        for (; j + LINE / (int64_t)sizeof(TYPE) <= d; j += FOLDS) { /* a cache line a turn */   \
            _mm_prefetch((const char *)(x + j) + AHEAD, _MM_HINT_T1);                             \
            STEP(LOAD8(x + j), LOAD8(x + j + 8));                                                 \
            if (sizeof(TYPE) == 2) {                                                              \
                j += FOLDS;                                                                       \
                STEP(LOAD8(x + j), LOAD8(x + j + 8));                                             \
            }                                                                                     \
        }                                                                                         \
        for (; j + FOLDS <= d; j += FOLDS) STEP(LOAD8(x + j), LOAD8(x + j + 8));                  \
        if (j < d) {                                                                              \
            float rest[FOLDS] = {0};                                                              \
            REST;                                                                                 \
            STEP(_mm256_loadu_ps(rest), _mm256_loadu_ps(rest + 8));                               \
        }                                                                                         \
        const __m256 n = _mm256_add_ps(n0, n1), c = _mm256_add_ps(c0, c1);                        \
        float all[4];                                                                             \
        _mm_storeu_ps(all, unfold(_mm256_add_ps(a0, a1), _mm256_add_ps(b0, b1), c,                \
                                  _mm256_add_ps(e0, e1)));                                        \
        sums[0] = _mm_cvtss_f32(unfold(n, n, n, n));                                              \
        for (int i = 0; i < 4; i++) sums[(1 + i) * ROWS] = all[i];                                \
    }
FOLD(fold, float, _mm256_loadu_ps, memcpy(rest, x + j, (size_t)(d - j) * 4))
#define FOLD_HALF_DIRECT 1
FOLD(fold_half, uint16_t, half8, widen(x + j, rest, d - j))

static void count_columns(const int32_t *rows, int64_t n, const int32_t at[COLUMNS],
                          int32_t counts[COLUMNS]) {
    const __m256i cut = _mm256_loadu_si256((const __m256i *)at);
    __m256i a = _mm256_setzero_si256(), b = a; /* two counters: one would wait for itself */
    const __m256i *row = (const __m256i *)rows, *end = row + n;
    for (; row + 2 <= end; row += 2) {
        a = _mm256_sub_epi32(a, _mm256_cmpgt_epi32(_mm256_loadu_si256(row), cut));
        b = _mm256_sub_epi32(b, _mm256_cmpgt_epi32(_mm256_loadu_si256(row + 1), cut));
    }
    if (row < end) a = _mm256_sub_epi32(a, _mm256_cmpgt_epi32(_mm256_loadu_si256(row), cut));
    const __m256i above = _mm256_add_epi32(a, b);
    _mm256_storeu_si256((__m256i *)counts,
                        _mm256_sub_epi32(_mm256_set1_epi32((int32_t)n), above));
}

#include "body.h"

#if defined(__clang__)
#pragma clang attribute pop
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif

#else
const Engine engine_avx2 = {0};
#endif
