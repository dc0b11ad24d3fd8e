/* The best window of four queries at a time, over prefix sums. Included by body.h. */

#define LONG_RUN 768   /* from this length on, pruning pays */
#define TIE 1e-9

static double tie_threshold(double best) {
    double size = fabs(best);
    return best - TIE * (size > 1.0 ? size : 1.0);
}

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

/* A short run: four lengths share each load of a start. */
static void scan_short_run(const double *p, int64_t n, const int64_t *lengths, int64_t count,
                           double *best) {
    int64_t k = 0;
    for (; k + 4 <= count && lengths[k + 3] <= n; k += 4, best += 4 * LANES) {
        const double *a = p + lengths[k] * LANES, *b = p + lengths[k + 1] * LANES;
        const double *c = p + lengths[k + 2] * LANES, *e = p + lengths[k + 3] * LANES;
        D4 most[4] = {d4_load(best), d4_load(best + LANES), d4_load(best + 2 * LANES),
                      d4_load(best + 3 * LANES)};
        const int64_t shared = n - lengths[k + 3] + 1;
        for (int64_t i = 0; i < shared * LANES; i += LANES) {
            const D4 start = d4_load(p + i);
            most[0] = d4_max(most[0], d4_sub(d4_load(a + i), start));
            most[1] = d4_max(most[1], d4_sub(d4_load(b + i), start));
            most[2] = d4_max(most[2], d4_sub(d4_load(c + i), start));
            most[3] = d4_max(most[3], d4_sub(d4_load(e + i), start));
        }
        for (int j = 0; j < 4; j++) {
            const int64_t left = n - lengths[k + j] + 1 - shared;
            if (left) most[j] = d4_max(most[j], largest_difference(p + shared * LANES, left, lengths[k + j]));
            d4_store(best + j * LANES, most[j]);
        }
    }
    for (; k < count && lengths[k] <= n; k++, best += LANES)
        d4_store(best, d4_max(d4_load(best), largest_difference(p, n - lengths[k] + 1, lengths[k])));
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

/* A lower bound of what a difference must reach for its score to count, given the best score so
 * far: a little below threshold · norm, so that rounding cannot drop a window. */
static double least_difference(double threshold, double norm) {
    const double bar = threshold * norm;
    return bar - 1e-14 * fabs(bar) - 1e-300;
}

/* Scans one long run; s->best holds, per length, the largest difference so far.
 * A block of starts is skipped when even its lowest prefix and the highest one a length ahead
 * stay below what is needed: rounding is monotone, so this is a true bound. */
static void scan_long_run(const double *p, int64_t n, const int64_t *lengths, const double *norms,
                          int64_t count, Scratch *s, double *leader) {
    const int64_t entries = n + 1, blocks = (entries + BLOCK - 1) / BLOCK;
    block_bounds(p, entries, s->low, s->high);
    memcpy(s->high + blocks * LANES, s->high + (blocks - 1) * LANES, LANES * sizeof(double));
    while (count && lengths[count - 1] > n) count--;
    for (int64_t k = count - 1; k >= 0; k--) { /* long first: states last, so the leader is strong */
        const int64_t length = lengths[k], starts = n - length + 1;
        double needed[LANES], *best = s->best + k * LANES;
        for (int l = 0; l < LANES; l++)
            needed[l] = least_difference(tie_threshold(leader[l]), norms[k]);
        const D4 bar = d4_load(needed);
        D4 most = d4_load(best);
        const double *high = s->high + length / BLOCK * LANES;
        for (int64_t first = 0; first < starts; first += BLOCK) {
            const int64_t at = first / BLOCK * LANES, left = starts - first;
            const D4 top = d4_max(d4_load(high + at), d4_load(high + at + LANES));
            if (d4_ge(d4_sub(top, d4_load(s->low + at)), bar))
                most = d4_max(most, largest_difference(p + first * LANES,
                                                       left < BLOCK ? left : BLOCK, length));
        }
        d4_store(best, most);
        for (int l = 0; l < LANES; l++) {
            const double reached = best[l] / norms[k];
            leader[l] = reached > leader[l] ? reached : leader[l];
        }
    }
}

/* The earliest start (a position among frames, before `limit`) whose score reaches the
 * threshold with this length; `limit` if there is none. */
static int64_t earliest(const double *prefix, const History *h, int lane, int64_t length, double norm,
                        double threshold, int64_t limit) {
    const double needed = least_difference(threshold, norm);
    for (int64_t r = 0; r < h->runs; r++) {
        const int64_t first = h->offsets[r], last = h->offsets[r + 1];
        if (first >= limit) break;
        const double *p = prefix + (first + r) * LANES + lane;
        const int64_t fitting = last - first - length + 1;
        const int64_t starts = fitting < limit - first ? fitting : limit - first;
        for (int64_t i = 0; i < starts; i++) {
            const double difference = p[(i + length) * LANES] - p[i * LANES];
            if (difference >= needed && difference / norm >= threshold) return first + i;
        }
    }
    return limit;
}

static void scan_lanes(const History *h, Scratch *s, int group, int64_t *start, int64_t *end,
                       double *score) {
    const int64_t *lengths = h->lengths, count = h->lengths_count;
    const double *norms = h->norms;
    for (int64_t k = 0; k < count; k++) d4_store(s->best + k * LANES, d4_set(-INFINITY));
    double leader[LANES] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (int64_t r = 0; r < h->runs; r++) {
        const int64_t n = h->offsets[r + 1] - h->offsets[r];
        const double *p = s->prefix + (h->offsets[r] + r) * LANES;
        if (n < LONG_RUN) scan_short_run(p, n, lengths, count, s->best);
        else scan_long_run(p, n, lengths, norms, count, s, leader);
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
        int64_t limit = h->frames;
        for (int64_t k = 0; k < count; k++) { /* ascending: an equal start keeps the shorter end */
            if (!(s->best[k * LANES + l] / norms[k] >= threshold)) continue;
            const int64_t at = earliest(s->prefix, h, l, lengths[k], norms[k], threshold, limit);
            if (at < limit) limit = at, start[l] = at, end[l] = at + lengths[k] - 1;
        }
        /* the score of the window that is returned, which may lie TIE below the best */
        for (int64_t r = 0; r < h->runs; r++) {
            if (h->offsets[r + 1] <= start[l]) continue;
            const double *p = s->prefix + r * LANES + l;
            const double difference = p[(end[l] + 1) * LANES] - p[start[l] * LANES];
            for (int64_t k = 0; k < count; k++)
                if (lengths[k] == end[l] - start[l] + 1) score[l] = difference / norms[k];
            break;
        }
    }
}
