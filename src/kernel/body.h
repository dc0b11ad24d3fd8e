/* The method after the features: cosines, calibration, smoothing, prefix sums, scan.
 *
 * Included by baseline.c and avx2.c, which bring the vector type D4 (four queries side by side)
 * and the few loops worth writing by hand. numpy finds the same windows (calibration.py, scan.py).
 */

#define CHUNK 256      /* frames that are calibrated and smoothed while in cache */
#define QUERIES_AT_A_TIME 64 /* whose cosines are computed together: more would leave the cache */
#define HUGE_PAGE ((size_t)2 << 20)
#define RESIDUAL_FLOOR 1e-12
#define SEARCH_ROWS 8  /* of frames + 1 values, that a search of contrast.h works with */

#include "select.h"

/* ── scratch ───────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    float *queries;      /* aligned, padded copy of some queries */
    float *row;          /* one widened or centred feature row */
    int32_t *keys;       /* 2 × frames */
    double *found;       /* frames: deviations that round alike */
    double *lanes;       /* (CHUNK + smoothing) × LANES: calibrated */
    double *prefix;      /* (frames + runs) × LANES */
    double *low, *high;  /* per BLOCK of prefix entries */
    double *best;        /* lengths × LANES */
    double *roots;       /* smoothing + 1 */
    double *wide, *totals, *sums; /* frames + 1 each, for states.h */
    double *search;      /* SEARCH_ROWS × (frames + 1) */
    void *memory;
} Scratch;

static size_t round_up(size_t n) { return (n + 63) / 64 * 64; }

static int64_t padded(int64_t d) { return (d + FOLDS - 1) / FOLDS * FOLDS; }

static void *part_of(char *base, size_t *used, size_t bytes) {
    void *at = base ? base + *used : NULL;
    *used += round_up(bytes);
    return at;
}

enum { ROWS_ONLY, SCAN, STATES }; /* what the scratch is for */

/* Lays the scratch of a history out from `base` on; returns how many bytes it takes. */
static size_t lay_out(const History *h, Scratch *s, char *base, int kind) {
    const size_t frames = (size_t)h->frames, entries = frames + (size_t)h->runs;
    const size_t count = (size_t)h->queries, row = (size_t)padded(h->dimension);
    const size_t queries = count < QUERIES_AT_A_TIME ? count : QUERIES_AT_A_TIME;
    const size_t blocks = entries / BLOCK + 4, scans = kind == SCAN, states = kind == STATES;
    size_t k = (size_t)h->smoothing + 1, held = CHUNK + (size_t)h->smoothing, used = 0;
    if (k > frames + 1) k = frames + 1;
    /* full groups of queries, filled up with zeros */
    s->queries = part_of(base, &used, (kind == ROWS_ONLY) * (queries + LANES) * row * 4);
    s->row = part_of(base, &used, (kind == ROWS_ONLY) * row * 4);
    s->keys = part_of(base, &used, scans * frames * 8);
    s->found = part_of(base, &used, scans * frames * 8);
    s->lanes = part_of(base, &used, scans * (held < frames ? held : frames) * LANES * 8);
    s->prefix = part_of(base, &used, scans * entries * LANES * 8);
    s->low = part_of(base, &used, scans * blocks * LANES * 8);
    s->high = part_of(base, &used, scans * blocks * LANES * 8);
    s->best = part_of(base, &used, (size_t)h->lengths_count * LANES * 8);
    s->roots = part_of(base, &used, scans * k * 8);
    s->wide = part_of(base, &used, states * (frames + 1) * 8);
    s->totals = part_of(base, &used, states * (frames + 1) * 8);
    s->sums = part_of(base, &used, states * (frames + 1) * 8);
    s->search = part_of(base, &used, states * SEARCH_ROWS * (frames + 1) * 8);
    for (size_t i = 1; base && scans && i < k; i++) s->roots[i] = 1.0 / sqrt((double)i);
    return used;
}

static int prepare(const History *h, Scratch *s, int kind) {
    const size_t total = lay_out(h, s, NULL, kind) + 64;
    s->memory = malloc(total);
    if (!s->memory) return NO_MEMORY;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (total > HUGE_PAGE) { /* long histories: faulting in small pages costs more than the scan */
        const uintptr_t first = ((uintptr_t)s->memory + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        madvise((void *)first, ((uintptr_t)s->memory + total - first) / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    }
#endif
    lay_out(h, s, (char *)(((uintptr_t)s->memory + 63) / 64 * 64), kind);
    return OK;
}

/* The position of the first value that is not finite, or n. No early exit: it vectorises. */
#define FIRST_BAD(NAME, TYPE, BITS, INF)                                                      \
    static int64_t NAME(const TYPE *x, int64_t n) {                                           \
        BITS bad = 0;                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                     \
            BITS bits;                                                                        \
            memcpy(&bits, x + i, sizeof bits);                                                \
            bad |= (BITS)((bits & INF) == INF);                                               \
        }                                                                                     \
        int64_t i = 0;                                                                        \
        if (!bad) return n;                                                                   \
        while (fabs((double)x[i]) < INFINITY) i++;                                            \
        return i;                                                                             \
    }
FIRST_BAD(first_bad_float, float, uint32_t, 0x7f800000u)
FIRST_BAD(first_bad_double, double, uint64_t, 0x7ff0000000000000u)

/* ── evidence: one pass over the features ──────────────────────────────────────────────────── */

/* sums[0], sums[ROWS], … : Σ x² and Σ x·q of row t for LANES queries */
static void fold_row(const void *table, int half, int64_t t, int64_t d, const float *q,
                     int64_t stride, float *row, double *sums) {
    if (!half) {
        fold((const float *)table + t * d, d, q, stride, sums);
        return;
    }
#if FOLD_HALF_DIRECT
    (void)row;
    fold_half((const uint16_t *)table + t * d, d, q, stride, sums);
#else
    widen((const uint16_t *)table + t * d, row, d);
    fold(row, d, q, stride, sums);
#endif
}

/* row = x / ‖x‖ − centre, in float32 */
static int centred_row(const void *table, int half, int64_t t, int64_t d, const float *queries,
                       const float *centre, float *row) {
    double sums[(1 + LANES) * ROWS];
    const float *x = (const float *)table + t * d;
    if (half) widen((const uint16_t *)table + t * d, row, d), x = row;
    fold(x, d, queries, 0, sums); /* only the length is wanted here */
    if (!(sums[0] > 0.0) || !(sums[0] < INFINITY)) return 0;
    const float inverse = (float)(1.0 / sqrt(sums[0]));
    for (int64_t j = 0; j < d; j++) row[j] = x[j] * inverse - centre[j];
    return 1;
}

/* The cosines of up to QUERIES_AT_A_TIME queries. */
static Status some_cosines(const History *h, Scratch *s, int64_t query, float *out) {
    const int64_t d = h->dimension, n = h->frames, stride = padded(d), left = h->queries - query;
    const int64_t count = left < QUERIES_AT_A_TIME ? left : QUERIES_AT_A_TIME;
    const double floor = h->centre ? RESIDUAL_FLOOR : 0.0;
    memset(s->queries, 0, (size_t)((count + LANES - 1) / LANES * LANES * stride) * 4);
    for (int64_t i = 0; i < count; i++)
        memcpy(s->queries + i * stride, h->table + (query + i) * d, (size_t)d * 4);
    /* Roots and quotients of ROWS rows at a time: their latency would stall the next row's sums. */
    for (int64_t from = 0; from < n; from += ROWS) {
        const int64_t rows = n - from < ROWS ? n - from : ROWS;
        for (int64_t first = 0; first < count; first += LANES) {
            const float *queries = s->queries + first * stride;
            const int64_t group = count - first < LANES ? count - first : LANES;
            double sums[(1 + LANES) * ROWS];
            for (int64_t t = from; t < from + rows; t++) {
                if (!h->centre)
                    fold_row(h->features, h->half, t, d, queries, stride, s->row, sums + t - from);
                else if (centred_row(h->features, h->half, t, d, queries, h->centre, s->row))
                    fold(s->row, d, queries, stride, sums + t - from);
                else return (Status){BAD_FEATURE, t};
            }
            for (int64_t i = 0; i < rows; i++) {
                const double norm = sqrt(sums[i]);
                sums[i] = norm > floor ? norm : floor; /* without a centre: 0 → not finite below */
            }
            for (int64_t q = 0; q < group; q++) {
                float *cosines = out + (first + q) * n + from;
                const double *dots = sums + (1 + q) * ROWS;
                for (int64_t i = 0; i < rows; i++) cosines[i] = (float)(dots[i] / sums[i]);
                const int64_t bad = first_bad_float(cosines, rows);
                if (bad < rows) return (Status){BAD_FEATURE, from + bad};
            }
        }
    }
    return (Status){OK, 0};
}

/* ── calibration, smoothing inside runs, prefix sums ───────────────────────────────────────── */

typedef struct {
    float *const *rows;       /* LANES rows of cosines */
    double centre[LANES], inverse[LANES];
} Calibrated;

/* Calibrated values of frames [from, to), LANES at a time. */
static void calibrate_lanes(const Calibrated *c, int64_t from, int64_t to, double *out) {
    const D4 m = d4_load(c->centre), k = d4_load(c->inverse);
    int64_t t = from;
    for (; t + D4_GATHER_MANY <= to; t += D4_GATHER_MANY, out += D4_GATHER_MANY * LANES) {
        D4 values[D4_GATHER_MANY];
        d4_gather_many(c->rows, t, values);
        for (int i = 0; i < D4_GATHER_MANY; i++)
            d4_store(out + i * LANES, d4_mul(d4_sub(values[i], m), k));
    }
    for (; t < to; t++, out += LANES) d4_store(out, d4_mul(d4_sub(d4_gather(c->rows, t), m), k));
}

/* Smoothed values of frames [from, to) of a run [first, last): the active offsets of each frame,
 * from left to right, over the root of their number. lanes holds the frames from `held` on. */
static void smooth_lanes(const double *lanes, int64_t held, int64_t first, int64_t last,
                         int64_t from, int64_t to, int64_t half, const double *roots, double *out) {
    for (int64_t t = from; t < to; t++, out += LANES) {
        const int64_t left = t - half > first ? t - half : first;
        const int64_t right = t + half < last - 1 ? t + half : last - 1;
        const double *at = lanes + (left - held) * LANES;
        D4 sum = d4_load(at);
        for (int64_t j = left; j < right; j++) sum = d4_add(sum, d4_load(at += LANES));
        d4_store(out, d4_mul(sum, d4_set(roots[right - left + 1])));
    }
}

/* Calls for a chunk of one run: fills out with the smoothed values of frames [from, to). */
static void respond_lanes(const Calibrated *c, int64_t first, int64_t last, int64_t from, int64_t to,
                          int64_t half, Scratch *s, double *out) {
    const int64_t held = from - half > first ? from - half : first;
    const int64_t until = to + half < last ? to + half : last;
    calibrate_lanes(c, held, until, s->lanes);
    if (half == 1 && to - from > 2) { /* the published width: the middle without a case in it */
        const D4 root = d4_set(s->roots[3]);
        const int64_t inner = from > first ? from : from + 1, stop = to < last ? to : to - 1;
        smooth_lanes(s->lanes, held, first, last, from, inner, half, s->roots, out);
        for (int64_t t = inner; t < stop; t++) {
            const double *at = s->lanes + (t - 1 - held) * LANES;
            const D4 sum = d4_add(d4_add(d4_load(at), d4_load(at + LANES)), d4_load(at + 2 * LANES));
            d4_store(out + (t - from) * LANES, d4_mul(sum, root));
        }
        smooth_lanes(s->lanes, held, first, last, stop, to, half, s->roots,
                     out + (stop - from) * LANES);
    } else smooth_lanes(s->lanes, held, first, last, from, to, half, s->roots, out);
}

/* prefix holds run r at offset (start + r): a zero, then the running sums, restarted per run. */
static void add_lanes(const Calibrated *c, const History *h, int64_t half, Scratch *s, double *prefix) {
    for (int64_t r = 0; r < h->runs; r++) {
        const int64_t first = h->offsets[r], last = h->offsets[r + 1];
        double *out = prefix + (first + r) * LANES;
        D4 sum = d4_set(0.0);
        d4_store(out, sum), out += LANES;
        for (int64_t from = first; from < last; from += CHUNK) {
            const int64_t to = from + CHUNK < last ? from + CHUNK : last;
            respond_lanes(c, first, last, from, to, half, s, out);
            for (int64_t t = from; t < to; t++, out += LANES)
                d4_store(out, sum = d4_add(sum, d4_load(out)));
        }
    }
}

/* The same from responses that are already there (no calibration, no smoothing). */
static void add_responses(double *const rows[LANES], const History *h, double *prefix) {
    for (int64_t r = 0; r < h->runs; r++) {
        const int64_t first = h->offsets[r], last = h->offsets[r + 1];
        double *out = prefix + (first + r) * LANES;
        for (int l = 0; l < LANES; l++) {
            double sum = out[l] = 0.0;
            for (int64_t t = first; t < last; t++)
                out[(t - first + 1) * LANES + l] = sum += rows[l][t];
        }
    }
}

#include "scan.h"

static Status check_cosines(const History *h) {
    const int64_t items = h->queries * h->frames, where = first_bad_float(h->cosines, items);
    return where < items ? (Status){BAD_COSINE, where % h->frames} : (Status){OK, 0};
}

static Status check_responses(const History *h) {
    const int64_t items = h->queries * h->frames, where = first_bad_double(h->responses, items);
    return where < items ? (Status){BAD_RESPONSE, where % h->frames} : (Status){OK, 0};
}

#include "states.h"

/* ── entry points ──────────────────────────────────────────────────────────────────────────── */

static Status find_cosines(const History *h) {
    Scratch s;
    Status status = {prepare(h, &s, ROWS_ONLY), 0};
    if (status.code) return status;
    for (int64_t q = 0; q < h->queries && !status.code; q += QUERIES_AT_A_TIME)
        status = some_cosines(h, &s, q, h->cosines + q * h->frames);
    free(s.memory);
    return status;
}

static Status find_centre(const History *h, float *out) {
    const int64_t d = h->dimension, n = h->frames;
    Scratch s;
    float *inverse = malloc((size_t)n * 4);
    int32_t *keys = malloc((size_t)n * COLUMNS * 4);
    Status status = {prepare(h, &s, ROWS_ONLY), 0};
    if (!inverse || !keys) status.code = NO_MEMORY;
    if (!status.code) memset(s.queries, 0, (size_t)padded(d) * 4);
    for (int64_t t = 0; t < n && !status.code; t++) {
        double sums[(1 + LANES) * ROWS];
        fold_row(h->features, h->half, t, d, s.queries, 0, s.row, sums);
        if (!(sums[0] > 0.0) || !(sums[0] < INFINITY)) status = (Status){BAD_FEATURE, t};
        inverse[t] = (float)(1.0 / sqrt(sums[0]));
    }
    for (int64_t j = 0; j < d && !status.code; j += COLUMNS) {
        const int used = d - j < COLUMNS ? (int)(d - j) : COLUMNS;
        for (int64_t t = 0; t < n; t++) {
            const float *row = (const float *)h->features + t * d + j;
            float values[COLUMNS] = {0};
            if (h->half) widen((const uint16_t *)h->features + t * d + j, values, used), row = values;
            else if (used < COLUMNS) memcpy(values, row, (size_t)used * 4), row = values;
            int32_t *out_keys = keys + t * COLUMNS;
            for (int l = 0; l < COLUMNS; l++) out_keys[l] = key_of(row[l] * inverse[t]);
        }
        column_medians(keys, n, used, out + j);
    }
    free(s.memory);
    free(inverse);
    free(keys);
    return status;
}

/* Pointers to the rows of up to LANES queries; missing lanes repeat the last one. */
#define LANE_ROWS(NAME, TYPE)                                                                 \
    static void NAME(TYPE *first, int group, int64_t n, TYPE *rows[LANES]) {                  \
        for (int l = 0; l < LANES; l++) rows[l] = first + (l < group ? l : group - 1) * n;    \
    }
LANE_ROWS(lanes_of_floats, float)
LANE_ROWS(lanes_of_doubles, double)

static int group_size(int64_t count, int64_t first) {
    return count - first < LANES ? (int)(count - first) : LANES;
}

static Calibrated calibrate_group(float *const rows[LANES], int group, int64_t n, Scratch *s,
                                  double *centre, double *scale) {
    Calibrated c = {.rows = rows};
    for (int l = 0; l < LANES; l++) {
        if (l < group) calibrate(rows[l], n, s->keys, s->found, centre + l, scale + l);
        c.centre[l] = centre[l < group ? l : group - 1];
        c.inverse[l] = 1.0 / scale[l < group ? l : group - 1];
    }
    return c;
}

static Status respond(const History *h, Answers a) {
    const int64_t n = h->frames, half = (h->smoothing - 1) / 2;
    Scratch s;
    Status status = check_cosines(h);
    if (!status.code) status.code = prepare(h, &s, SCAN);
    if (status.code) return status;
    for (int64_t first = 0; first < h->queries; first += LANES) {
        float *rows[LANES];
        const int group = group_size(h->queries, first);
        lanes_of_floats(h->cosines + first * n, group, n, rows);
        const Calibrated c = calibrate_group(rows, group, n, &s, a.centre + first, a.scale + first);
        for (int64_t r = 0; r < h->runs; r++) {
            const int64_t from = h->offsets[r], to = h->offsets[r + 1];
            for (int64_t t = from; t < to; t += CHUNK) {
                const int64_t stop = t + CHUNK < to ? t + CHUNK : to;
                double values[CHUNK * LANES];
                respond_lanes(&c, from, to, t, stop, half, &s, values);
                for (int l = 0; l < group; l++)
                    for (int64_t i = t; i < stop; i++)
                        h->responses[(first + l) * n + i] = values[(i - t) * LANES + l];
            }
        }
    }
    free(s.memory);
    return status;
}

static Status locate(const History *h, Answers a) {
    Scratch s;
    Status status = h->responses ? check_responses(h) : check_cosines(h);
    if (!status.code) status.code = prepare(h, &s, SCAN);
    if (status.code) return status;
    for (int64_t first = 0; first < h->queries; first += LANES) {
        const int group = group_size(h->queries, first);
        if (h->responses) {
            double *rows[LANES];
            lanes_of_doubles(h->responses + first * h->frames, group, h->frames, rows);
            add_responses(rows, h, s.prefix);
        } else {
            float *rows[LANES];
            double centre[LANES], scale[LANES];
            lanes_of_floats(h->cosines + first * h->frames, group, h->frames, rows);
            const Calibrated c = calibrate_group(rows, group, h->frames, &s, centre, scale);
            add_lanes(&c, h, (h->smoothing - 1) / 2, &s, s.prefix);
        }
        scan_lanes(h, &s, group, a.start + first, a.end + first, a.score + first);
    }
    free(s.memory);
    return status;
}

const Engine ENGINE = {ENGINE_NAME, find_cosines, find_centre, respond,     locate,
                       contrast,    search,       search_parts, label};
