/* The build for x86-64 with AVX2, FMA and F16C, chosen at run time.
 *
 * Sums are folded in the same order as in baseline.c and products are rounded before they are
 * added, so both builds (and numpy) give the same bits.
 */
#include "kernel.h"

#if defined(__x86_64__) || defined(_M_X64)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define ENGINE engine_avx2
#define ENGINE_NAME "avx2"

typedef __m256d D4;
static inline D4 d4_set(double a) { return _mm256_set1_pd(a); }
static inline D4 d4_load(const double *p) { return _mm256_loadu_pd(p); }
static inline void d4_store(double *p, D4 a) { _mm256_storeu_pd(p, a); }
static inline D4 d4_add(D4 a, D4 b) { return _mm256_add_pd(a, b); }
static inline D4 d4_sub(D4 a, D4 b) { return _mm256_sub_pd(a, b); }
static inline D4 d4_mul(D4 a, D4 b) { return _mm256_mul_pd(a, b); }
static inline D4 d4_div(D4 a, D4 b) { return _mm256_div_pd(a, b); }
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

/* The 16 partial sums of one dot product, added in double in the order of baseline.c. */
static inline double unfold(__m256 a, __m256 b) {
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(a));
    __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
    low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_castps256_ps128(b)));
    high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm256_extractf128_ps(b, 1)));
    __m256d four = _mm256_add_pd(low, high);
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(two) + _mm_cvtsd_f64(_mm_unpackhi_pd(two, two));
}

#define FOLD_STEP(X0, X1, J)                                                                  \
    do {                                                                                      \
        __m256 x0 = (X0), x1 = (X1);                                                          \
        n0 = _mm256_add_ps(n0, _mm256_mul_ps(x0, x0));                                        \
        n1 = _mm256_add_ps(n1, _mm256_mul_ps(x1, x1));                                        \
        for (int i = 0; i < count; i++) {                                                     \
            const float *other = q + i * stride + (J);                                        \
            a0[i] = _mm256_add_ps(a0[i], _mm256_mul_ps(x0, _mm256_loadu_ps(other)));          \
            a1[i] = _mm256_add_ps(a1[i], _mm256_mul_ps(x1, _mm256_loadu_ps(other + 8)));      \
        }                                                                                     \
    } while (0)

/* `count` is a constant at every call below, so the accumulators stay in registers. */
#if defined(_MSC_VER)
#define ALWAYS static __forceinline
#else
#define ALWAYS static inline __attribute__((always_inline))
#endif
ALWAYS void fold_any(const float *x, const uint16_t *h, int64_t d, const float *q, int64_t stride,
                     int count, double *sums) {
    __m256 n0 = _mm256_setzero_ps(), n1 = n0, a0[4] = {n0, n0, n0, n0}, a1[4] = {n0, n0, n0, n0};
    int64_t j = 0;
    for (; j + FOLDS <= d; j += FOLDS) {
        if (h) FOLD_STEP(half8(h + j), half8(h + j + 8), j);
        else FOLD_STEP(_mm256_loadu_ps(x + j), _mm256_loadu_ps(x + j + 8), j);
    }
    if (j < d) {
        float rest[FOLDS] = {0};
        if (h) widen(h + j, rest, d - j);
        else memcpy(rest, x + j, (size_t)(d - j) * 4);
        FOLD_STEP(_mm256_loadu_ps(rest), _mm256_loadu_ps(rest + 8), j);
    }
    sums[0] = unfold(n0, n1);
    for (int i = 0; i < count; i++) sums[1 + i] = unfold(a0[i], a1[i]);
}

static void fold(const float *x, int64_t d, const float *q, int64_t stride, int count, double *sums) {
    switch (count) {
    case 0: fold_any(x, NULL, d, q, stride, 0, sums); break;
    case 1: fold_any(x, NULL, d, q, stride, 1, sums); break;
    case 2: fold_any(x, NULL, d, q, stride, 2, sums); break;
    case 3: fold_any(x, NULL, d, q, stride, 3, sums); break;
    default: fold_any(x, NULL, d, q, stride, 4, sums);
    }
}

#define FOLD_HALF_DIRECT 1
static void fold_half(const uint16_t *h, int64_t d, const float *q, int64_t stride, int count,
                      double *sums) {
    switch (count) {
    case 0: fold_any(NULL, h, d, q, stride, 0, sums); break;
    case 1: fold_any(NULL, h, d, q, stride, 1, sums); break;
    case 2: fold_any(NULL, h, d, q, stride, 2, sums); break;
    case 3: fold_any(NULL, h, d, q, stride, 3, sums); break;
    default: fold_any(NULL, h, d, q, stride, 4, sums);
    }
}

static void split(const float *x, int64_t n, float at, int64_t *count, float *below, float *above) {
    const __m256 cut = _mm256_set1_ps(at), none = _mm256_set1_ps(-INFINITY);
    const __m256 full = _mm256_set1_ps(INFINITY);
    __m256 lo = none, hi = full;
    int64_t c = 0, i = 0;
    while (i + 8 <= n) {
        __m256i inside = _mm256_setzero_si256();
        int64_t stop = n - i > 1 << 20 ? i + (1 << 20) : n; /* keeps the 32-bit counters small */
        for (; i + 8 <= stop; i += 8) {
            __m256 v = _mm256_loadu_ps(x + i), in = _mm256_cmp_ps(v, cut, _CMP_LE_OQ);
            inside = _mm256_sub_epi32(inside, _mm256_castps_si256(in));
            lo = _mm256_max_ps(lo, _mm256_blendv_ps(none, v, in));
            hi = _mm256_min_ps(hi, _mm256_blendv_ps(v, full, in));
        }
        int32_t each[8];
        _mm256_storeu_si256((__m256i *)each, inside);
        for (int l = 0; l < 8; l++) c += each[l];
    }
    float los[8], his[8];
    _mm256_storeu_ps(los, lo), _mm256_storeu_ps(his, hi);
    for (int l = 1; l < 8; l++) {
        los[0] = los[l] > los[0] ? los[l] : los[0];
        his[0] = his[l] < his[0] ? his[l] : his[0];
    }
    for (; i < n; i++) {
        if (x[i] <= at) c++, los[0] = x[i] > los[0] ? x[i] : los[0];
        else his[0] = x[i] < his[0] ? x[i] : his[0];
    }
    *count = c, *below = los[0], *above = his[0];
}

static void count_columns(const int32_t *rows, int64_t n, const int32_t at[8], int32_t counts[8]) {
    const __m256i cut = _mm256_loadu_si256((const __m256i *)at);
    __m256i above = _mm256_setzero_si256();
    for (int64_t i = 0; i < n; i++)
        above = _mm256_sub_epi32(
            above, _mm256_cmpgt_epi32(_mm256_loadu_si256((const __m256i *)(rows + i * 8)), cut));
    _mm256_storeu_si256((__m256i *)counts, above);
    for (int l = 0; l < 8; l++) counts[l] = (int32_t)n - counts[l];
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
