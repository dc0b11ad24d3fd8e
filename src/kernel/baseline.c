/* The build for any machine: plain C11 that compilers vectorise for what they know is there. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "kernel.h"

#define ENGINE engine_baseline
#define ENGINE_NAME "baseline"

typedef struct { double v[LANES]; } D4;

#define EACH for (int l = 0; l < LANES; l++)
static inline D4 d4_set(double a) { D4 r; EACH r.v[l] = a; return r; }
static inline D4 d4_load(const double *p) { D4 r; EACH r.v[l] = p[l]; return r; }
static inline void d4_store(double *p, D4 a) { EACH p[l] = a.v[l]; }
static inline D4 d4_add(D4 a, D4 b) { EACH a.v[l] += b.v[l]; return a; }
static inline D4 d4_sub(D4 a, D4 b) { EACH a.v[l] -= b.v[l]; return a; }
static inline D4 d4_mul(D4 a, D4 b) { EACH a.v[l] *= b.v[l]; return a; }
static inline D4 d4_max(D4 a, D4 b) { EACH a.v[l] = a.v[l] > b.v[l] ? a.v[l] : b.v[l]; return a; }
static inline D4 d4_min(D4 a, D4 b) { EACH a.v[l] = a.v[l] < b.v[l] ? a.v[l] : b.v[l]; return a; }
static inline int d4_ge(D4 a, D4 b) { int m = 0; EACH m |= (a.v[l] >= b.v[l]) << l; return m; }
static inline D4 d4_gather(float *const rows[LANES], int64_t t) {
    D4 r; EACH r.v[l] = rows[l][t]; return r;
}
#define D4_GATHER_MANY 1
static inline void d4_gather_many(float *const rows[LANES], int64_t t, D4 out[1]) {
    out[0] = d4_gather(rows, t);
}

static inline float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu, bits;
    if (rest >= 0x7c00u) bits = sign | 0x7f800000u | ((rest & 0x3ffu) << 13);
    else if (rest >= 0x0400u) bits = sign | ((rest << 13) + 0x38000000u);
    else {
        float tiny = (float)rest * 5.9604644775390625e-08f; /* subnormal: rest · 2^-24, exact */
        return sign ? -tiny : tiny;
    }
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static void widen(const uint16_t *in, float *out, int64_t n) {
    for (int64_t j = 0; j < n; j++) out[j] = half_to_float(in[j]);
}

/* sums[0] = Σ x², sums[(1 + i) * ROWS] = Σ x·q_i for LANES queries, `stride` apart. */
static void fold(const float *x, int64_t d, const float *q, int64_t stride, double *sums) {
    for (int i = 0; i <= LANES; i++) {
        float acc[FOLDS] = {0};
        const float *other = i ? q + (i - 1) * stride : x;
        int64_t j = 0;
        for (; j + FOLDS <= d; j += FOLDS)
            for (int k = 0; k < FOLDS; k++) acc[k] += x[j + k] * other[j + k];
        for (int k = 0; j + k < d; k++) acc[k] += x[j + k] * other[j + k];
        for (int k = 0; k < FOLDS / 2; k++) acc[k] += acc[k + FOLDS / 2];
        for (int left = FOLDS / 4; left; left /= 2)
            for (int k = 0; k < left; k++) acc[k] = acc[2 * k] + acc[2 * k + 1];
        sums[i * ROWS] = acc[0];
    }
}

#define FOLD_HALF_DIRECT 0

/* counts[l] = how many of the keys in column l are ≤ at[l] */
static void count_columns(const int32_t *rows, int64_t n, const int32_t at[COLUMNS], int32_t counts[COLUMNS]) {
    for (int l = 0; l < COLUMNS; l++) counts[l] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int l = 0; l < COLUMNS; l++) counts[l] += rows[i * COLUMNS + l] <= at[l];
}

#include "body.h"
