/* The method after the features: cosines, calibration, smoothing, prefix sums, scan.
 *
 * Included by baseline.c and avx2.c, which bring the vector type D4 (four queries side by side)
 * and the few loops worth writing by hand. Every operation has one order, the one numpy's oracle
 * in evidence.py and scan.py uses: equal bits, not only equal windows.
 */
#include <stdlib.h>

#define BLOCK 32       /* starts that are pruned together */
#define LONG_RUN 256   /* from this length on, pruning pays */
#define SAMPLE 1024    /* values that bracket a median */
#define MAD_TO_SCALE 1.4826
#define SCALE_FLOOR 1e-3
#define TIE 1e-9
#define RESIDUAL_FLOOR 1e-12

static double tie_threshold(double best) {
    double size = fabs(best);
    return best - TIE * (size > 1.0 ? size : 1.0);
}

/* ── the k-th smallest value (from 0) and the one after it, exactly ────────────────────────── */

/* Bisection on values that snaps to the data: [low, high] always holds the answer, count_low
 * values lie below low, count_high up to and including high. */
static void kth_by_counting(const float *x, int64_t n, int64_t k, float *value, float *next) {
    int64_t count_low = 0, count_high, inside;
    float low, high, after = INFINITY, below, above;
    split(x, n, INFINITY, &count_high, &high, &above);
    split(x, n, -INFINITY, &inside, &below, &low);
    for (int step = 0; low < high && count_high > k + 1; step++) {
        float share = step & 1 ? 0.5f : (float)(k + 1 - count_low) / (float)(count_high - count_low);
        float at = low + share * (high - low);
        if (!(at >= low && at < high)) at = 0.5f * low + 0.5f * high;
        if (!(at >= low && at < high)) at = low;
        split(x, n, at, &inside, &below, &above);
        if (inside > k) high = below, count_high = inside, after = above;
        else low = above, count_low = inside;
    }
    *value = high;
    *next = count_high > k + 1 ? high : after;
}

/* Long rows: a sample brackets the answer, one pass keeps what lies inside the bracket. */
static void kth(const float *x, int64_t n, int64_t k, float *scratch, float *value, float *next) {
    if (n > 8 * SAMPLE) {
        float sample[SAMPLE], low, high, unused;
        for (int64_t i = 0; i < SAMPLE; i++) sample[i] = x[i * (n / SAMPLE)];
        int64_t rank = (int64_t)((double)k / (double)n * SAMPLE);
        int64_t first = rank > 64 ? rank - 64 : 0, last = rank + 64;
        kth_by_counting(sample, SAMPLE, first, &low, &unused);
        kth_by_counting(sample, SAMPLE, last < SAMPLE ? last : SAMPLE - 1, &high, &unused);
        int64_t kept = 0, under = 0;
        for (int64_t i = 0; i < n; i++) {
            float v = x[i];
            under += v < low;
            scratch[kept] = v;
            kept += (v >= low) & (v <= high);
        }
        if (k >= under && k + 1 < under + kept) {
            kth_by_counting(scratch, kept, k - under, value, next);
            return;
        }
    }
    kth_by_counting(x, n, k, value, next);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the double deviations that round to `rounded` into found; returns how many there are. */
static int64_t deviations_at(const float *row, const float *deviation, int64_t n, double centre,
                             float rounded, double *found) {
    int64_t kept = 0;
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        if (deviation[i] == rounded) {
            const double exact = found[kept++] = fabs((double)row[i] - centre);
            low = exact < low ? exact : low, high = exact > high ? exact : high;
        }
    if (low < high) qsort(found, (size_t)kept, sizeof(double), by_value);
    return kept;
}

/* Median and robust scale of one row; scratch: 2n floats, n doubles. */
static void calibrate(const float *row, int64_t n, float *scratch, double *found, double *centre,
                      double *scale) {
    const int64_t k = (n - 1) / 2;
    float value, next, *deviation = scratch, *rest = scratch + n;
    kth(row, n, k, rest, &value, &next);
    const double median = n % 2 ? (double)value : ((double)value + (double)next) / 2.0;

    /* Rounding keeps order: find the rounded deviation, then settle the few that round alike. */
    for (int64_t i = 0; i < n; i++) deviation[i] = (float)fabs((double)row[i] - median);
    kth(deviation, n, k, rest, &value, &next);
    int64_t rank = k;
    for (int64_t i = 0; i < n; i++) rank -= deviation[i] < value;
    const int64_t kept = deviations_at(row, deviation, n, median, value, found);
    double mad = found[rank];
    if (n % 2 == 0) {
        double second = rank + 1 < kept ? found[rank + 1] : 0.0;
        if (rank + 1 >= kept) deviations_at(row, deviation, n, median, next, found), second = found[0];
        mad = (mad + second) / 2.0;
    }
    mad *= MAD_TO_SCALE;
    *centre = median;
    *scale = mad > SCALE_FLOOR ? mad : SCALE_FLOOR;
}

/* ── scratch ───────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    float *cosines;      /* queries × frames, when the caller does not keep them */
    float *queries;      /* aligned, padded copy of one history's queries */
    float *row;          /* one widened or centred feature row */
    float *selection;    /* 2 × frames */
    double *found;       /* frames */
    double *lanes;       /* frames × LANES: calibrated */
    double *prefix;      /* (frames + runs) × LANES */
    double *low, *high;  /* per BLOCK of prefix entries */
    double *best;        /* lengths × LANES */
    double *roots;       /* smoothing + 1 */
    void *memory;
} Scratch;

static size_t round_up(size_t n) { return (n + 63) / 64 * 64; }

static int64_t padded(int64_t d) { return (d + FOLDS - 1) / FOLDS * FOLDS; }

/* One allocation that serves the largest history of the batch. */
static int prepare(const Batch *b, Scratch *s) {
    size_t cosines = 0, queries = 0, frames = 0, entries = 0, lengths = 0;
    for (int64_t h = 0; h < b->histories; h++) {
        size_t n = (size_t)(b->frame_offsets[h + 1] - b->frame_offsets[h]);
        size_t q = (size_t)(b->query_offsets[h + 1] - b->query_offsets[h]);
        size_t r = b->history_runs ? (size_t)(b->history_runs[h + 1] - b->history_runs[h]) : 0;
        size_t l = b->length_offsets ? (size_t)(b->length_offsets[h + 1] - b->length_offsets[h]) : 0;
        if (n * q > cosines) cosines = n * q;
        if (q > queries) queries = q;
        if (n > frames) frames = n;
        if (n + r > entries) entries = n + r;
        if (l > lengths) lengths = l;
    }
    if (b->cosines || b->responses) cosines = 0;
    size_t row = (size_t)padded(b->dimension), blocks = entries / BLOCK + 4;
    size_t k = (size_t)b->smoothing + 1;
    if (k > frames + 1) k = frames + 1;
    size_t sizes[] = {cosines * 4, queries * row * 4, row * 4, frames * 8, frames * 8,
                      frames * LANES * 8, entries * LANES * 8, blocks * LANES * 8,
                      blocks * LANES * 8, lengths * LANES * 8, k * 8};
    size_t total = 64;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) total += round_up(sizes[i]);
    s->memory = malloc(total);
    if (!s->memory) return NO_MEMORY;
    char *at = (char *)(((uintptr_t)s->memory + 63) / 64 * 64);
    void **fields[] = {(void **)&s->cosines, (void **)&s->queries, (void **)&s->row,
                       (void **)&s->selection, (void **)&s->found, (void **)&s->lanes,
                       (void **)&s->prefix, (void **)&s->low, (void **)&s->high,
                       (void **)&s->best, (void **)&s->roots};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        *fields[i] = at, at += round_up(sizes[i]);
    for (size_t i = 1; i < k; i++) s->roots[i] = 1.0 / sqrt((double)i);
    return OK;
}

/* ── evidence: one pass over the features ──────────────────────────────────────────────────── */

static void fold_row(const void *table, int half, int64_t t, int64_t d, const float *q,
                     int64_t stride, int count, float *row, double *sums) {
    if (!half) {
        fold((const float *)table + t * d, d, q, stride, count, sums);
        return;
    }
#if FOLD_HALF_DIRECT
    (void)row;
    fold_half((const uint16_t *)table + t * d, d, q, stride, count, sums);
#else
    widen((const uint16_t *)table + t * d, row, d);
    fold(row, d, q, stride, count, sums);
#endif
}

/* row = x / ‖x‖ − centre, in float32 */
static int centred_row(const void *table, int half, int64_t t, int64_t d, const float *centre,
                       float *row) {
    double sums[1];
    const float *x = (const float *)table + t * d;
    if (half) widen((const uint16_t *)table + t * d, row, d), x = row;
    fold(x, d, NULL, 0, 0, sums);
    if (!(sums[0] > 0.0) || !(sums[0] < INFINITY)) return 0;
    const float inverse = (float)(1.0 / sqrt(sums[0]));
    for (int64_t j = 0; j < d; j++) {
        float unit = x[j] * inverse;
        row[j] = centre ? unit - centre[j] : unit;
    }
    return 1;
}

static Status history_cosines(const Batch *b, int64_t h, Scratch *s, float *out) {
    const int64_t d = b->dimension, n = b->frame_offsets[h + 1] - b->frame_offsets[h];
    const int64_t count = b->query_offsets[h + 1] - b->query_offsets[h], stride = padded(d);
    const float *centre = b->centres ? b->centres + h * d : NULL;
    const double floor = centre ? RESIDUAL_FLOOR : 0.0;
    for (int64_t i = 0; i < count; i++) {
        memcpy(s->queries + i * stride, b->queries + (b->query_first[h] + i) * d, (size_t)d * 4);
        memset(s->queries + i * stride + d, 0, (size_t)(stride - d) * 4);
    }
    for (int64_t t = 0; t < n; t++) {
        const void *table = b->features[h];
        int half = b->halves[h];
        int64_t at = t;
        double sums[1 + LANES];
        if (centre) {
            if (!centred_row(table, half, t, d, centre, s->row)) return (Status){BAD_FEATURE, h, t};
            table = s->row, half = 0, at = 0;
        }
        for (int64_t first = 0; first < count; first += LANES) {
            const int64_t left = count - first;
            const int group = left < LANES ? (int)left : LANES;
            fold_row(table, half, at, d, s->queries + first * stride, stride, group, s->row, sums);
            if (!centre && !(sums[0] > 0.0)) return (Status){BAD_FEATURE, h, t};
            double norm = sqrt(sums[0]);
            if (norm < floor) norm = floor;
            for (int i = 0; i < group; i++) {
                const double cosine = sums[1 + i] / norm;
                if (!(fabs(cosine) < INFINITY)) return (Status){BAD_FEATURE, h, t};
                out[(first + i) * n + t] = (float)cosine;
            }
        }
    }
    return (Status){OK, 0, 0};
}

/* ── calibration, smoothing inside runs, prefix sums ───────────────────────────────────────── */

typedef struct {
    int64_t frames, runs;
    const int64_t *offsets; /* runs + 1 positions, the first is `base` */
    int64_t base;
} Runs;

static Runs runs_of(const Batch *b, int64_t h) {
    return (Runs){b->frame_offsets[h + 1] - b->frame_offsets[h],
                  b->history_runs[h + 1] - b->history_runs[h],
                  b->run_offsets + b->history_runs[h], b->frame_offsets[h]};
}

static void calibrate_lanes(float *const rows[LANES], int64_t n, const double *centre,
                            const double *scale, double *out) {
    double inverse[LANES];
    for (int l = 0; l < LANES; l++) inverse[l] = 1.0 / scale[l];
    const D4 m = d4_load(centre), k = d4_load(inverse);
    int64_t t = 0;
    for (; t + D4_GATHER_MANY <= n; t += D4_GATHER_MANY) {
        D4 values[D4_GATHER_MANY];
        d4_gather_many(rows, t, values);
        for (int i = 0; i < D4_GATHER_MANY; i++)
            d4_store(out + (t + i) * LANES, d4_mul(d4_sub(values[i], m), k));
    }
    for (; t < n; t++) d4_store(out + t * LANES, d4_mul(d4_sub(d4_gather(rows, t), m), k));
}

/* The smoothed value at t of a run that spans [first, last): active offsets only. */
static inline D4 smoothed(const double *lanes, int64_t first, int64_t last, int64_t t, int64_t half,
                          const double *roots) {
    const int64_t from = t - half > first ? t - half : first;
    const int64_t to = t + half < last - 1 ? t + half : last - 1;
    D4 sum = d4_load(lanes + from * LANES);
    for (int64_t j = from + 1; j <= to; j++) sum = d4_add(sum, d4_load(lanes + j * LANES));
    return d4_mul(sum, d4_set(roots[to - from + 1]));
}

/* prefix holds run r at offset (start + r): a zero, then the running sums, restarted per run. */
static void smooth_and_add(const double *lanes, Runs runs, int64_t width, const double *roots,
                           double *prefix) {
    const int64_t half = (width - 1) / 2;
    const D4 three = d4_set(width == 3 && runs.frames > 2 ? roots[3] : 0.0);
    for (int64_t r = 0; r < runs.runs; r++) {
        const int64_t first = runs.offsets[r] - runs.base, last = runs.offsets[r + 1] - runs.base;
        double *out = prefix + (first + r) * LANES;
        D4 sum = d4_set(0.0);
        d4_store(out, sum);
        for (int64_t t = first; t < last; t++) {
            D4 value;
            if (width == 3 && t > first && t + 1 < last) {
                value = d4_add(d4_load(lanes + (t - 1) * LANES), d4_load(lanes + t * LANES));
                value = d4_mul(d4_add(value, d4_load(lanes + (t + 1) * LANES)), three);
            } else value = smoothed(lanes, first, last, t, half, roots);
            sum = d4_add(sum, value);
            d4_store(out + (t - first + 1) * LANES, sum);
        }
    }
}

/* The same from responses that are already there (no calibration, no smoothing). */
static void add_responses(double *const rows[LANES], Runs runs, double *prefix) {
    for (int64_t r = 0; r < runs.runs; r++) {
        const int64_t first = runs.offsets[r] - runs.base, last = runs.offsets[r + 1] - runs.base;
        double *out = prefix + (first + r) * LANES;
        for (int l = 0; l < LANES; l++) {
            double sum = out[l] = 0.0;
            for (int64_t t = first; t < last; t++)
                out[(t - first + 1) * LANES + l] = sum += rows[l][t];
        }
    }
}

/* ── scan ──────────────────────────────────────────────────────────────────────────────────── */

static inline D4 largest_difference(const double *p, int64_t starts, int64_t length) {
    const double *ahead = p + length * LANES;
    D4 a = d4_set(-INFINITY), b = a, c = a, e = a;
    int64_t i = 0;
    for (; i + 4 <= starts; i += 4) {
        const double *x = ahead + i * LANES, *y = p + i * LANES;
        a = d4_max(a, d4_sub(d4_load(x), d4_load(y)));
        b = d4_max(b, d4_sub(d4_load(x + LANES), d4_load(y + LANES)));
        c = d4_max(c, d4_sub(d4_load(x + 2 * LANES), d4_load(y + 2 * LANES)));
        e = d4_max(e, d4_sub(d4_load(x + 3 * LANES), d4_load(y + 3 * LANES)));
    }
    for (; i < starts; i++) a = d4_max(a, d4_sub(d4_load(ahead + i * LANES), d4_load(p + i * LANES)));
    return d4_max(d4_max(a, b), d4_max(c, e));
}

static void block_bounds(const double *p, int64_t entries, double *low, double *high) {
    for (int64_t first = 0, b = 0; first < entries; first += BLOCK, b++) {
        const int64_t last = first + BLOCK < entries ? first + BLOCK : entries;
        D4 lo = d4_load(p + first * LANES), hi = lo;
        for (int64_t i = first + 1; i < last; i++) {
            const D4 v = d4_load(p + i * LANES);
            lo = d4_min(lo, v), hi = d4_max(hi, v);
        }
        d4_store(low + b * LANES, lo), d4_store(high + b * LANES, hi);
    }
}

/* The largest score that a start in block b can reach. Rounding is monotone: a true bound. */
static inline D4 block_bound(const double *low, const double *high, int64_t b, int64_t length,
                             int64_t entries, D4 norm) {
    const int64_t c = (b * BLOCK + length) / BLOCK;
    D4 top = d4_load(high + c * LANES);
    if ((c + 1) * BLOCK < entries) top = d4_max(top, d4_load(high + (c + 1) * LANES));
    return d4_div(d4_sub(top, d4_load(low + b * LANES)), norm);
}

/* best: per length, lane-wise largest difference so far. leader: largest score so far. */
static void scan_long_run(const double *p, int64_t n, const int64_t *lengths, const double *norms,
                          int64_t count, Scratch *s, D4 *leader) {
    const int64_t entries = n + 1;
    block_bounds(p, entries, s->low, s->high);
    const D4 one = d4_set(1.0), tie = d4_set(TIE), zero = d4_set(0.0);
    D4 cut = d4_sub(*leader, d4_mul(tie, d4_max(one, d4_max(*leader, d4_sub(zero, *leader)))));
    for (int64_t k = 0; k < count && lengths[k] <= n; k++) {
        const int64_t starts = n - lengths[k] + 1;
        const D4 norm = d4_set(norms[k]);
        D4 most = d4_load(s->best + k * LANES);
        for (int64_t b = 0; b * BLOCK < starts; b++) {
            if (!d4_ge(block_bound(s->low, s->high, b, lengths[k], entries, norm), cut)) continue;
            const int64_t first = b * BLOCK, left = starts - first;
            const D4 found = largest_difference(p + first * LANES, left < BLOCK ? left : BLOCK,
                                                lengths[k]);
            most = d4_max(most, found);
            *leader = d4_max(*leader, d4_div(found, norm));
            cut = d4_sub(*leader, d4_mul(tie, d4_max(one, d4_max(*leader, d4_sub(zero, *leader)))));
        }
        d4_store(s->best + k * LANES, most);
    }
}

/* The earliest start (a position among frames, before `limit`) whose score reaches the
 * threshold with this length; `limit` if there is none. */
static int64_t earliest(const double *prefix, Runs runs, int lane, int64_t length, double norm,
                        double threshold, int64_t limit) {
    const double bar = threshold * norm, cut = bar - 1e-14 * fabs(bar) - 1e-300;
    for (int64_t r = 0; r < runs.runs; r++) {
        const int64_t first = runs.offsets[r] - runs.base, last = runs.offsets[r + 1] - runs.base;
        if (first >= limit) break;
        const double *p = prefix + (first + r) * LANES + lane;
        const int64_t fitting = last - first - length + 1;
        const int64_t starts = fitting < limit - first ? fitting : limit - first;
        for (int64_t i = 0; i < starts; i++) {
            const double difference = p[(i + length) * LANES] - p[i * LANES];
            if (difference >= cut && difference / norm >= threshold) return first + i;
        }
    }
    return limit;
}

static void scan_lanes(Runs runs, const int64_t *lengths, const double *norms, int64_t count,
                       Scratch *s, int group, int64_t *start, int64_t *end, double *score) {
    for (int64_t k = 0; k < count; k++) d4_store(s->best + k * LANES, d4_set(-INFINITY));
    D4 leader = d4_set(-INFINITY);
    for (int64_t r = 0; r < runs.runs; r++) {
        const int64_t n = runs.offsets[r + 1] - runs.offsets[r];
        const double *p = s->prefix + (runs.offsets[r] - runs.base + r) * LANES;
        if (n >= LONG_RUN) {
            scan_long_run(p, n, lengths, norms, count, s, &leader);
            continue;
        }
        for (int64_t k = 0; k < count && lengths[k] <= n; k++) {
            double *best = s->best + k * LANES;
            d4_store(best, d4_max(d4_load(best), largest_difference(p, n - lengths[k] + 1, lengths[k])));
        }
    }
    for (int l = 0; l < group; l++) {
        double top = -INFINITY;
        for (int64_t k = 0; k < count; k++) {
            const double reached = s->best[k * LANES + l] / norms[k];
            if (reached > top) top = reached;
        }
        start[l] = end[l] = -1, score[l] = top;
        if (top == -INFINITY) continue;
        const double threshold = tie_threshold(top);
        int64_t limit = runs.frames;
        for (int64_t k = 0; k < count; k++) { /* ascending: an equal start keeps the shorter end */
            if (!(s->best[k * LANES + l] / norms[k] >= threshold)) continue;
            const int64_t at = earliest(s->prefix, runs, l, lengths[k], norms[k], threshold, limit);
            if (at < limit) limit = at, start[l] = at, end[l] = at + lengths[k] - 1;
        }
        /* the score of the window that is returned, which may lie TIE below the best */
        for (int64_t r = 0; r < runs.runs; r++) {
            if (runs.offsets[r + 1] - runs.base <= start[l]) continue;
            const double *p = s->prefix + r * LANES + l;
            const double difference = p[(end[l] + 1) * LANES] - p[start[l] * LANES];
            for (int64_t k = 0; k < count; k++)
                if (lengths[k] == end[l] - start[l] + 1) score[l] = difference / norms[k];
            break;
        }
    }
}

/* ── entry points ──────────────────────────────────────────────────────────────────────────── */

static int finite_floats(const float *x, int64_t n, int64_t *where) {
    for (*where = 0; *where < n; ++*where)
        if (!(fabsf(x[*where]) < INFINITY)) return 0;
    return 1;
}

static int finite_doubles(const double *x, int64_t n, int64_t *where) {
    for (*where = 0; *where < n; ++*where)
        if (!(fabs(x[*where]) < INFINITY)) return 0;
    return 1;
}

static Status all_cosines(const Batch *b) {
    Scratch s;
    Status status = {prepare(b, &s), 0, 0};
    if (status.code) return status;
    for (int64_t h = 0; h < b->histories && !status.code; h++)
        status = history_cosines(b, h, &s, b->cosines[h]);
    free(s.memory);
    return status;
}

/* Keys whose integer order is the order of the floats. */
static inline int32_t key_of(float f) {
    int32_t bits;
    memcpy(&bits, &f, 4);
    return bits ^ ((bits >> 31) & 0x7fffffff);
}

static inline float float_of(int32_t key) {
    float f;
    key ^= (key >> 31) & 0x7fffffff;
    memcpy(&f, &key, 4);
    return f;
}

/* Medians of eight columns by bisection over the 32 bits of their keys. */
static void column_medians(const int32_t *keys, int64_t n, int used, float *out) {
    const int32_t k = (int32_t)((n - 1) / 2);
    int32_t low[8], high[8], at[8], counts[8];
    for (int l = 0; l < 8; l++) low[l] = INT32_MAX, high[l] = INT32_MIN;
    for (int64_t i = 0; i < n; i++)
        for (int l = 0; l < 8; l++) {
            const int32_t key = keys[i * 8 + l];
            low[l] = key < low[l] ? key : low[l];
            high[l] = key > high[l] ? key : high[l];
        }
    for (int open = 1; open;) {
        open = 0;
        for (int l = 0; l < 8; l++) at[l] = (int32_t)(((int64_t)low[l] + high[l]) >> 1);
        count_columns(keys, n, at, counts);
        for (int l = 0; l < 8; l++) {
            if (counts[l] > k) high[l] = at[l];
            else if (low[l] < high[l]) low[l] = at[l] + 1;
            open |= low[l] < high[l];
        }
    }
    count_columns(keys, n, low, counts);
    for (int l = 0; l < used; l++) {
        float value = float_of(low[l]);
        if (n % 2 == 0) {
            int32_t next = INT32_MAX;
            if (counts[l] > k + 1) next = low[l];
            else
                for (int64_t i = 0; i < n; i++) {
                    const int32_t key = keys[i * 8 + l];
                    if (key > low[l] && key < next) next = key;
                }
            value = (value + float_of(next)) / 2.0f;
        }
        out[l] = value;
    }
}

static Status all_centres(const Batch *b, float *out) {
    const int64_t d = b->dimension;
    int64_t most = 0;
    for (int64_t h = 0; h < b->histories; h++) {
        const int64_t n = b->frame_offsets[h + 1] - b->frame_offsets[h];
        if (n > most) most = n;
    }
    float *inverse = malloc((size_t)(most + padded(d)) * 4);
    int32_t *keys = malloc((size_t)most * 8 * 4);
    Status status = {inverse && keys ? OK : NO_MEMORY, 0, 0};
    for (int64_t h = 0; h < b->histories && !status.code; h++) {
        const int64_t n = b->frame_offsets[h + 1] - b->frame_offsets[h];
        for (int64_t t = 0; t < n && !status.code; t++) {
            double sums[1];
            fold_row(b->features[h], b->halves[h], t, d, NULL, 0, 0, inverse + most, sums);
            if (!(sums[0] > 0.0) || !(sums[0] < INFINITY)) status = (Status){BAD_FEATURE, h, t};
            inverse[t] = (float)(1.0 / sqrt(sums[0]));
        }
        for (int64_t j = 0; j < d && !status.code; j += 8) {
            const int used = d - j < 8 ? (int)(d - j) : 8;
            for (int64_t t = 0; t < n; t++) {
                float values[8] = {0};
                if (b->halves[h]) widen((const uint16_t *)b->features[h] + t * d + j, values, used);
                else memcpy(values, (const float *)b->features[h] + t * d + j, (size_t)used * 4);
                for (int l = 0; l < 8; l++) /* + 0: both zeros get one key */
                    keys[t * 8 + l] = key_of(values[l] * inverse[t] + 0.0f);
            }
            column_medians(keys, n, used, out + h * d + j);
        }
    }
    free(inverse);
    free(keys);
    return status;
}

/* Pointers to the rows of up to LANES queries; missing lanes repeat the last one. */
#define ROWS(TYPE, TABLE, FIRST, COUNT, N)                                                    \
    TYPE *rows[LANES];                                                                        \
    const int group = (COUNT) - (FIRST) < LANES ? (int)((COUNT) - (FIRST)) : LANES;           \
    for (int l = 0; l < LANES; l++) rows[l] = (TABLE) + ((FIRST) + (l < group ? l : group - 1)) * (N)

static void calibrate_group(float *const rows[LANES], int group, int64_t n, Scratch *s,
                            double *centre, double *scale) {
    double m[LANES], k[LANES];
    for (int l = 0; l < LANES; l++) {
        if (l < group) calibrate(rows[l], n, s->selection, s->found, m + l, k + l);
        else m[l] = m[group - 1], k[l] = k[group - 1];
    }
    memcpy(centre, m, (size_t)group * sizeof(double));
    memcpy(scale, k, (size_t)group * sizeof(double));
    calibrate_lanes(rows, n, m, k, s->lanes);
}

static Status all_responses(const Batch *b, Answers a) {
    Scratch s;
    Status status = {prepare(b, &s), 0, 0};
    if (status.code) return status;
    for (int64_t h = 0; h < b->histories && !status.code; h++) {
        const Runs runs = runs_of(b, h);
        const int64_t count = b->query_offsets[h + 1] - b->query_offsets[h], n = runs.frames;
        int64_t where;
        if (!finite_floats(b->cosines[h], count * n, &where)) {
            status = (Status){BAD_COSINE, h, where % n};
            break;
        }
        for (int64_t first = 0; first < count; first += LANES) {
            ROWS(float, b->cosines[h], first, count, n);
            const int64_t at = b->query_offsets[h] + first, half = (b->smoothing - 1) / 2;
            calibrate_group(rows, group, n, &s, a.centre + at, a.scale + at);
            for (int64_t r = 0; r < runs.runs; r++) {
                const int64_t from = runs.offsets[r] - runs.base, to = runs.offsets[r + 1] - runs.base;
                for (int64_t t = from; t < to; t++) {
                    double values[LANES];
                    d4_store(values, smoothed(s.lanes, from, to, t, half, s.roots));
                    for (int l = 0; l < group; l++) b->responses[h][(first + l) * n + t] = values[l];
                }
            }
        }
    }
    free(s.memory);
    return status;
}

static Status history_windows(const Batch *b, int64_t h, Scratch *s, Answers a) {
    const Runs runs = runs_of(b, h);
    const int64_t count = b->query_offsets[h + 1] - b->query_offsets[h], n = runs.frames;
    const int64_t from = b->length_offsets[h], lengths = b->length_offsets[h + 1] - from;
    float *cosines = b->cosines ? b->cosines[h] : s->cosines;
    int64_t where;
    if (b->responses) {
        if (!finite_doubles(b->responses[h], count * n, &where))
            return (Status){BAD_RESPONSE, h, where % n};
    } else if (b->features) {
        const Status status = history_cosines(b, h, s, cosines);
        if (status.code) return status;
    } else if (!finite_floats(cosines, count * n, &where)) return (Status){BAD_COSINE, h, where % n};

    for (int64_t first = 0; first < count; first += LANES) {
        const int64_t at = b->query_offsets[h] + first;
        const int group = count - first < LANES ? (int)(count - first) : LANES;
        if (b->responses) {
            ROWS(double, b->responses[h], first, count, n);
            (void)group;
            add_responses(rows, runs, s->prefix);
        } else {
            ROWS(float, cosines, first, count, n);
            calibrate_group(rows, group, n, s, a.centre + at, a.scale + at);
            smooth_and_add(s->lanes, runs, b->smoothing, s->roots, s->prefix);
        }
        scan_lanes(runs, b->lengths + from, b->norms + from, lengths, s, group, a.start + at,
                   a.end + at, a.score + at);
    }
    return (Status){OK, 0, 0};
}

static Status all_windows(const Batch *b, Answers a) {
    Scratch s;
    Status status = {prepare(b, &s), 0, 0};
    if (status.code) return status;
    for (int64_t h = 0; h < b->histories && !status.code; h++) status = history_windows(b, h, &s, a);
    free(s.memory);
    return status;
}

const Engine ENGINE = {ENGINE_NAME, all_cosines, all_centres, all_responses, all_windows};
