/* Medians without sorting: the k-th smallest value and the one after it, exactly.
 *
 * On integer keys that order like floats: compilers vectorise integer reductions, and a bisection
 * needs nothing but order. Included by body.h.
 */

#define SAMPLE 1024    /* values that bracket a median */
#define MAD_TO_SCALE 1.4826
#define SCALE_FLOOR 1e-3

/* Keys whose integer order is the order of the floats; both zeros get the same one. */
static inline int32_t key_of(float f) {
    int32_t bits;
    f += 0.0f;
    memcpy(&bits, &f, 4);
    return bits ^ ((bits >> 31) & 0x7fffffff);
}

static inline float float_of(int32_t key) {
    float f;
    key ^= (key >> 31) & 0x7fffffff;
    memcpy(&f, &key, 4);
    return f;
}

/* How many keys are ≤ at. */
static int64_t count_upto(const int32_t *x, int64_t n, int32_t at) {
    int64_t count = 0;
    for (int64_t from = 0; from < n; from += 1 << 20) { /* a narrow counter vectorises better */
        const int64_t to = n - from < 1 << 20 ? n : from + (1 << 20);
        int32_t inside = 0;
        for (int64_t i = from; i < to; i++) inside += x[i] <= at;
        count += inside;
    }
    return count;
}

/* The largest key ≤ at and the smallest key above it. */
static void around(const int32_t *x, int64_t n, int32_t at, int32_t *below, int32_t *above) {
    int32_t low = INT32_MIN, high = INT32_MAX;
    for (int64_t i = 0; i < n; i++) {
        const int32_t v = x[i], in = -(v <= at); /* masks: a branch here would cost tenfold */
        const int32_t a = (v & in) | (INT32_MIN & ~in), b = (v & ~in) | (INT32_MAX & in);
        low = a > low ? a : low;
        high = b < high ? b : high;
    }
    *below = low, *above = high;
}

typedef struct {
    int32_t value, next; /* the k-th key and the one after it */
    int64_t upto;        /* how many keys do not exceed the k-th */
} Ranked;

/* Where to cut [low, high] next, to find the k-th key: by the share of ranks, in the middle of the
 * values, or (so that it ends whatever the data) in the middle of the keys. `under` keys lie below
 * low, `upto` do not exceed high; low ≤ result < high. */
static inline int32_t guess(int32_t low, int32_t high, int64_t under, int64_t upto, int64_t k, int step) {
    if (step % 3 != 2) {
        const float a = float_of(low), b = float_of(high);
        const float share = step % 3 ? 0.5f : (float)(k + 1 - under) / (float)(upto - under);
        const int32_t at = key_of(a + share * (b - a));
        if (at >= low && at < high) return at;
    }
    return (int32_t)(((int64_t)low + high) >> 1);
}

/* Bisection by counting: the answer always lies in [low, high]. */
static Ranked kth_by_counting(const int32_t *x, int64_t n, int64_t k) {
    int32_t low = INT32_MAX, high = INT32_MIN, value, next;
    int64_t under = 0, upto = n;
    for (int64_t i = 0; i < n; i++) low = x[i] < low ? x[i] : low, high = x[i] > high ? x[i] : high;
    for (int step = 0; low < high && upto > k + 1; step++) {
        const int32_t at = guess(low, high, under, upto, k, step);
        const int64_t inside = count_upto(x, n, at);
        if (inside > k) high = at, upto = inside;
        else low = at + 1, under = inside;
    }
    around(x, n, high, &value, &next);
    return (Ranked){value, upto > k + 1 ? value : next, upto};
}

/* Long rows: a sample brackets the answer, one pass keeps what lies inside the bracket. */
static Ranked kth(const int32_t *x, int64_t n, int64_t k, int32_t *scratch) {
    if (n > 8 * SAMPLE) {
        int32_t sample[SAMPLE];
        for (int64_t i = 0; i < SAMPLE; i++) sample[i] = x[i * (n / SAMPLE)];
        const int64_t rank = (int64_t)((double)k / (double)n * SAMPLE);
        const int32_t low = kth_by_counting(sample, SAMPLE, rank > 64 ? rank - 64 : 0).value;
        const int32_t high =
            kth_by_counting(sample, SAMPLE, rank + 64 < SAMPLE ? rank + 64 : SAMPLE - 1).value;
        int64_t kept = 0, under = 0;
        for (int64_t i = 0; i < n; i++) {
            const int32_t v = x[i];
            under += v < low;
            scratch[kept] = v;
            kept += (v >= low) & (v <= high);
        }
        if (k >= under && k + 1 < under + kept) {
            Ranked r = kth_by_counting(scratch, kept, k - under);
            r.upto += under;
            return r;
        }
    }
    return kth_by_counting(x, n, k);
}

/* Where a key is one of two; returns how many such places there are. */
static int64_t equal_to(const int32_t *x, int64_t n, int32_t one, int32_t other, int32_t *at) {
    int64_t kept = 0;
    for (int64_t from = 0; from < n; from += 64) {
        const int64_t to = n - from < 64 ? n : from + 64;
        int32_t any = 0;
        for (int64_t i = from; i < to; i++) any |= (x[i] == one) | (x[i] == other);
        for (int64_t i = from; i < to && any; i++) {
            at[kept] = (int32_t)i;
            kept += (x[i] == one) | (x[i] == other);
        }
    }
    return kept;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median and robust scale of one row; scratch: 2n keys and n doubles. */
static void calibrate(const float *row, int64_t n, int32_t *keys, double *found, double *centre,
                      double *scale) {
    const int64_t k = (n - 1) / 2;
    int32_t *rest = keys + n;
    for (int64_t i = 0; i < n; i++) keys[i] = key_of(row[i]);
    Ranked r = kth(keys, n, k, rest);
    const double median =
        n % 2 ? (double)float_of(r.value) : ((double)float_of(r.value) + (double)float_of(r.next)) / 2.0;

    /* Rounding keeps order: find the rounded deviations in the middle, then sort the few exact
     * ones that round to them. */
    for (int64_t i = 0; i < n; i++) keys[i] = key_of((float)fabs((double)row[i] - median));
    r = kth(keys, n, k, rest);
    const int64_t kept = equal_to(keys, n, r.value, n % 2 ? r.value : r.next, rest);
    int64_t equal = 0;
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < kept; i++) {
        const double exact = found[i] = fabs((double)row[rest[i]] - median);
        equal += keys[rest[i]] == r.value;
        low = exact < low ? exact : low, high = exact > high ? exact : high;
    }
    if (low < high) qsort(found, (size_t)kept, sizeof(double), by_value);
    const int64_t rank = k - (r.upto - equal);
    const double mad = n % 2 ? found[rank] : (found[rank] + found[rank + 1]) / 2.0;
    *centre = median;
    *scale = mad * MAD_TO_SCALE > SCALE_FLOOR ? mad * MAD_TO_SCALE : SCALE_FLOOR;
}

/* Medians of COLUMNS columns at once, as in kth_by_counting. */
static void column_medians(const int32_t *keys, int64_t n, int used, float *out) {
    const int64_t k = (n - 1) / 2;
    int32_t low[COLUMNS], high[COLUMNS], at[COLUMNS], counts[COLUMNS];
    int32_t under[COLUMNS] = {0}, upto[COLUMNS], value[COLUMNS], next[COLUMNS];
    for (int l = 0; l < COLUMNS; l++)
        low[l] = high[l] = keys[l], upto[l] = (int32_t)n, value[l] = INT32_MIN, next[l] = INT32_MAX;
    for (int64_t i = 1; i < n; i++)
        for (int l = 0; l < COLUMNS; l++) {
            const int32_t v = keys[i * COLUMNS + l];
            low[l] = v < low[l] ? v : low[l];
            high[l] = v > high[l] ? v : high[l];
        }
    for (int step = 0, open = 1; open; step++) {
        open = 0;
        for (int l = 0; l < COLUMNS; l++) {
            const int done = low[l] == high[l] || upto[l] == k + 1;
            at[l] = done ? high[l] : guess(low[l], high[l], under[l], upto[l], k, step);
            open |= !done;
        }
        if (!open) break;
        count_columns(keys, n, at, counts);
        for (int l = 0; l < COLUMNS; l++) {
            if (counts[l] > k) high[l] = at[l], upto[l] = counts[l];
            else low[l] = at[l] + 1, under[l] = counts[l];
        }
    }
    for (int64_t i = 0; i < n; i++) /* the largest key ≤ high and the smallest above it */
        for (int l = 0; l < COLUMNS; l++) {
            const int32_t v = keys[i * COLUMNS + l], in = -(v <= high[l]);
            const int32_t a = (v & in) | (INT32_MIN & ~in), b = (v & ~in) | (INT32_MAX & in);
            value[l] = a > value[l] ? a : value[l];
            next[l] = b < next[l] ? b : next[l];
        }
    for (int l = 0; l < used; l++) {
        const float one = float_of(value[l]), two = upto[l] > k + 1 ? one : float_of(next[l]);
        out[l] = n % 2 ? one : (one + two) / 2.0f;
    }
}
