/* The best contrast of a row of state evidence. Included by states.h.
 *
 * A window of ℓ of the n observed frames scores D/√(ℓ(1 − ℓ/n)), D the sum of its
 * responses, which have mean zero. Half its square is the largest value of
 * (a − b)·D − (a² − b²)·ℓ/2 − b²·n/2  over the levels a inside and b outside. For fixed levels that
 * is linear in (position, prefix sum), so
 *   - only starts on the lower convex hull of the prefix sums before the end can win;
 *   - only ends on the upper convex hull of the prefix sums after the start can;
 *   - a window begins where the response does not fall and ends where it does not rise;
 *   - it does both at the level (a + b)/2, so the response crosses the same level at both of its ends.
 * All are applied with a tolerance that keeps every window the tie rule may look at. Where the
 * response rises slowly, or repeats itself, the hull is long: it is looked at in groups, and a group
 * is left out when none of its starts crosses a level of the end, or when even its lowest prefix sum
 * over its least norm stays below what is known. So the answer is that of trying them all; numpy
 * does that (states.py).
 */

#define NOTHING 1e-9 /* responses that are rounding errors */
#define LOOSE 1e-8   /* per observed frame: more than what a window within the tie can deviate by */
#define ROUNDING 1e-12
#define GROUP 32     /* starts that are left out together */
#define SAMPLES 64   /* places between which windows are tried first, where they are … */
#define WORTH 64     /* … that far apart */

typedef struct {
    int64_t start, end;
    double score;
} Window;

/* The search of one row; what lies on the hull is a stack. */
typedef struct {
    const double *row, *prefix, *norms;
    double widest;       /* no norm is larger */
    double loose;        /* by how much a window within the tie may deviate */
    int64_t total, size; /* observed frames of the history; starts on the hull */
    int64_t *hull;       /* starts */
    int64_t *since;      /* of each end, the first start that it may belong to */
    double *low;         /* the lowest prefix sum from the first of its GROUP on … */
    double *lowest;      /* … and of its GROUP · GROUP */
    double *before;      /* the lowest response before a start, of its GROUP … */
    double *before_all;  /* … and of its GROUP · GROUP */
    double *reached;     /* the highest response at a start up to this one, without the first */
    double best;         /* score that is known to be reached */
    Window top;          /* the best that was tried */
    Window *near;        /* within the tie of the best so far */
    int64_t used, room;
} Search;

/* √(ℓ · max(1 − ℓ/n, 1/n)) for ℓ = 1 … n. */
static void contrast_norms(int64_t n, double *out) {
    const double count = (double)n, least = 1.0 / count;
    out[0] = 1.0;
    for (int64_t l = 1; l <= n; l++) {
        const double rest = 1.0 - (double)l / count;
        out[l] = sqrt((double)l * (rest > least ? rest : least));
    }
}

static int earlier(const Window *a, const Window *b) {
    return a->start < b->start || (a->start == b->start && a->end < b->end);
}

/* Keeps a window that may still be chosen; −1 without memory. */
static int keep(Search *s, Window window) {
    if (s->used == s->room) {
        int64_t kept = 0;
        const double least = tie_threshold(s->best);
        for (int64_t k = 0; k < s->used; k++)
            if (s->near[k].score >= least) s->near[kept++] = s->near[k];
        s->used = kept;
        if (2 * kept >= s->room) {
            const int64_t room = s->room ? 2 * s->room : 64;
            Window *more = realloc(s->near, (size_t)room * sizeof(Window));
            if (!more) return -1;
            s->near = more, s->room = room;
        }
    }
    s->near[s->used++] = window;
    return 0;
}

/* A high score to begin with: that of the best frame, or of a long window between samples. */
static double leader(const History *h, const double *prefix, const double *norms, double frame) {
    const int64_t step = h->frames / SAMPLES;
    double best = frame / norms[1];
    for (int64_t r = 0; r < h->runs && step >= WORTH; r++)
        for (int64_t a = h->offsets[r]; a < h->offsets[r + 1]; a += step)
            for (int64_t b = a + step; b <= h->offsets[r + 1]; b += step) {
                const double score = (prefix[b] - prefix[a]) / norms[b - a];
                best = score > best ? score : best;
            }
    return best;
}

static void push(Search *s, int64_t t) {
    const int64_t k = s->size++, in_group = k % GROUP, in_all = k % (GROUP * GROUP);
    const double sum = s->prefix[t], before = k ? s->row[t - 1] : -INFINITY;
    s->hull[k] = t;
    s->low[k] = in_group && s->low[k - 1] < sum ? s->low[k - 1] : sum;
    s->lowest[k] = in_all && s->lowest[k - 1] < sum ? s->lowest[k - 1] : sum;
    s->before[k] = in_group && s->before[k - 1] < before ? s->before[k - 1] : before;
    s->before_all[k] = in_all && s->before_all[k - 1] < before ? s->before_all[k - 1] : before;
    s->reached[k] = !k ? -INFINITY : s->reached[k - 1] > s->row[t] ? s->reached[k - 1] : s->row[t];
}

/* Whether no window from these starts (of the hull) to t can come near the best. Norms rise and
 * fall again, the last one apart; a little is left for rounding. */
static int beaten(const Search *s, int64_t from, int64_t to, double low, int64_t t) {
    const double least = tie_threshold(s->best);
    const double needed = least - ROUNDING * (1.0 + fabs(least));
    double norm = s->widest;
    if (needed > 0.0) {
        const int64_t most = t + 1 - s->hull[from];
        const double a = s->norms[t + 1 - s->hull[to - 1]];
        const double b = s->norms[most < s->total ? most : s->total - 1];
        norm = a < b ? a : b;
    }
    return s->prefix[t + 1] - low < needed * norm;
}

/* The windows from these starts (of the hull) to t. */
static int try_starts(Search *s, int64_t from, int64_t to, int64_t t) {
    const double sum = s->prefix[t + 1];
    double least = tie_threshold(s->best);
    for (int64_t k = from; k < to; k++) {
        const int64_t start = s->hull[k];
        const double inside = sum - s->prefix[start], norm = s->norms[t + 1 - start];
        if (inside < least * norm - ROUNDING * norm) continue; /* a division less */
        const double score = inside / norm;
        if (score < least) continue;
        if (score > s->best) s->best = score, least = tie_threshold(score);
        const Window own = {start, t, score};
        if (score <= s->top.score && earlier(&s->top, &own)) continue; /* it can never be chosen */
        if (score >= s->top.score) s->top = own;
        if (keep(s, own)) return -1;
    }
    return 0;
}

/* Of each end of a stretch, the first start that it may belong to: where it leaves the upper hull
 * of the prefix sums from there on. The hull is that of push, seen from the other end of time. */
static void bound_starts(Search *s, int64_t first, int64_t last) {
    const double *row = s->row, *prefix = s->prefix;
    int64_t *hull = s->hull, size = 0;
    for (int64_t t = last + 1; t > first; t--) {
        s->since[t] = first;
        if (t <= last && row[t - 1] < row[t] - s->loose) continue;
        while (size >= 2) {
            const int64_t a = hull[size - 2], b = hull[size - 1];
            const double below = (prefix[a] - prefix[b]) * (double)(a - t) -
                                 (prefix[a] - prefix[t]) * (double)(a - b);
            if (below <= s->loose * (double)(a - t)) break;
            s->since[b] = t, size--;
        }
        hull[size++] = t;
    }
}

/* The windows that end at t, the last frame of its stretch or not. The first start has no response
 * before it, and may give the window of all frames, which has a norm of its own: it is always
 * tried. A level is that of a window with a positive score. */
static int try_end(Search *s, int64_t t, int last) {
    const int64_t wide = GROUP * GROUP, since = s->since[t + 1];
    if (s->size <= GROUP) {
        int64_t from = s->size;
        while (from && s->hull[from - 1] >= since) from--;
        return try_starts(s, from, s->size, t);
    }
    if (s->hull[0] >= since && try_starts(s, 0, 1, t)) return -1;
    const int positive = tie_threshold(s->best) > s->best / 2.0;
    const double most = positive ? s->row[t] + 2.0 * s->loose : INFINITY;
    const double least = positive && !last ? s->row[t + 1] - 2.0 * s->loose : -INFINITY;
    for (int64_t first = (s->size - 1) / wide * wide; first >= 0; first -= wide) {
        const int64_t end = first + wide < s->size ? first + wide : s->size;
        if (s->hull[end - 1] < since || s->reached[end - 1] < least) break;
        if (s->before_all[end - 1] > most || beaten(s, first, end, s->lowest[end - 1], t)) continue;
        for (int64_t k = (end - 1) / GROUP * GROUP; k >= first; k -= GROUP) {
            const int64_t stop = k + GROUP < end ? k + GROUP : end;
            if (s->hull[stop - 1] < since || s->reached[stop - 1] < least) break;
            if (s->before[stop - 1] > most || beaten(s, k, stop, s->low[stop - 1], t)) continue;
            int64_t from = stop;
            while (from > (k ? k : 1) && s->hull[from - 1] >= since) from--;
            if (try_starts(s, from, stop, t)) return -1;
        }
    }
    return 0;
}

/* One row of responses: its best window under the tie rule; the first frame of a row in which
 * nothing stands out. */
static int search_row(Search *s, const History *h, const double *row, double *prefix,
                      Window *found) {
    const double loose = LOOSE * (double)s->total;
    double most = 0.0, frame = -INFINITY;
    for (int64_t t = 0; t < h->frames; t++) {
        const double size = fabs(row[t]);
        most = size > most ? size : most;
    }
    *found = (Window){0, 0, 0.0};
    if (!(most > NOTHING)) return 0;
    prefix[0] = 0.0;
    for (int64_t t = 0; t < h->frames; t++) {
        prefix[t + 1] = prefix[t] + row[t];
        const double inside = prefix[t + 1] - prefix[t];
        frame = inside > frame ? inside : frame;
    }
    s->row = row, s->prefix = prefix, s->loose = loose, s->used = 0, s->best = leader(h, prefix, s->norms, frame);
    s->top = (Window){0, 0, -INFINITY};
    for (int64_t r = 0; r < h->runs; r++) {
        const int64_t first = h->offsets[r], last = h->offsets[r + 1] - 1;
        bound_starts(s, first, last);
        s->size = 0;
        for (int64_t t = first; t <= last; t++) {
            if (t == first || row[t] >= row[t - 1] - loose) {
                while (s->size >= 2) {
                    const int64_t a = s->hull[s->size - 2], b = s->hull[s->size - 1];
                    const double above = (prefix[b] - prefix[a]) * (double)(t - a) -
                                         (prefix[t] - prefix[a]) * (double)(b - a);
                    if (above <= loose * (double)(t - a)) break;
                    s->size--;
                }
                push(s, t);
            }
            if (t != last && row[t] < row[t + 1] - loose) continue;
            if (try_end(s, t, t == last)) return -1;
        }
    }
    const double least = tie_threshold(s->best);
    found->start = -1;
    for (int64_t k = 0; k < s->used; k++) {
        const Window *own = s->near + k;
        if (own->score >= least && (found->start < 0 || earlier(own, found))) *found = *own;
    }
    return 0;
}

/* A search in rows of a history; memory: SEARCH_ROWS · (frames + 1) values. */
static Search new_search(int64_t frames, double *memory) {
    const int64_t room = frames + 1;
    const double half = sqrt((double)frames) / 2.0;
    contrast_norms(frames, memory);
    return (Search){.norms = memory,
                    .total = frames,
                    .widest = half > 1.0 ? half : 1.0,
                    .hull = (int64_t *)(memory + room),
                    .low = memory + 2 * room,
                    .lowest = memory + 3 * room,
                    .before = memory + 4 * room,
                    .before_all = memory + 5 * room,
                    .reached = memory + 6 * room,
                    .since = (int64_t *)(memory + 7 * room)};
}
