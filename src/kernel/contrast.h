/* The best contrast of a row of state evidence. Included by states.h.
 *
 * A window of ℓ of the n observed frames scores D/√(ℓ(1 − ℓ/n)), D the sum of its
 * responses, which have mean zero. Half its square is the largest value of
 * (a − b)·D − (a² − b²)·ℓ/2 − b²·n/2  over the levels a inside and b outside. For fixed levels that
 * is linear in (position, prefix sum), so
 *   - only starts on the lower convex hull of the prefix sums can win;
 *   - a window begins where the response does not fall and ends where it does not rise.
 * Both are applied with a tolerance that keeps every window the tie rule may look at. Where the
 * response rises slowly, or repeats itself, the hull is long: it is looked at in groups, and a group
 * is left out when even its lowest prefix sum over its least norm stays below what is known. So the
 * answer is that of trying them all; numpy does that (states.py), in the same order of summation.
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
    const double *prefix, *norms;
    double widest;       /* no norm is larger */
    int64_t total, size; /* observed frames of the history; starts on the hull */
    int64_t *hull;       /* starts */
    double *low;         /* the lowest prefix sum from the first of its GROUP on … */
    double *lowest;      /* … and of its GROUP · GROUP */
    double best;         /* score that is known to be reached */
    Window top;          /* the best that was tried */
    Window *near;        /* within the tie of the best so far */
    int64_t used, room;
} Search;

/* √(ℓ · max(1 − ℓ/n, 1/n)) for ℓ = 1 … most. */
static void contrast_norms(int64_t n, int64_t most, double *out) {
    const double count = (double)n, least = 1.0 / count;
    out[0] = 1.0;
    for (int64_t l = 1; l <= most; l++) {
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
    const int64_t k = s->size++;
    const double own = s->prefix[t];
    s->hull[k] = t;
    s->low[k] = k % GROUP && s->low[k - 1] < own ? s->low[k - 1] : own;
    s->lowest[k] = k % (GROUP * GROUP) && s->lowest[k - 1] < own ? s->lowest[k - 1] : own;
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

/* The windows that end at t. */
static int try_end(Search *s, int64_t t) {
    const int64_t wide = GROUP * GROUP;
    if (s->size <= GROUP) return try_starts(s, 0, s->size, t);
    for (int64_t first = 0; first < s->size; first += wide) {
        const int64_t last = first + wide < s->size ? first + wide : s->size;
        if (beaten(s, first, last, s->lowest[last - 1], t)) continue;
        for (int64_t k = first; k < last; k += GROUP) {
            const int64_t end = k + GROUP < last ? k + GROUP : last;
            if (beaten(s, k, end, s->low[end - 1], t)) continue;
            if (try_starts(s, k, end, t)) return -1;
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
    s->prefix = prefix, s->used = 0, s->best = leader(h, prefix, s->norms, frame);
    s->top = (Window){0, 0, -INFINITY};
    for (int64_t r = 0; r < h->runs; r++) {
        const int64_t first = h->offsets[r], last = h->offsets[r + 1] - 1;
        s->size = 0;
        for (int64_t t = first; t <= last; t++) {
            if (t == first || row[t] >= row[t - 1] - loose) {
                while (s->size >= 2) {
                    const int64_t a = s->hull[s->size - 2], b = s->hull[s->size - 1];
                    const double slope = (prefix[t] - prefix[a]) / (double)(t - a);
                    if (prefix[b] - (prefix[a] + slope * (double)(b - a)) <= loose) break;
                    s->size--;
                }
                push(s, t);
            }
            if (t != last && row[t] < row[t + 1] - loose) continue;
            if (try_end(s, t)) return -1;
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

/* ── further windows of a row ──────────────────────────────────────────────────────────────── */

/* Frames that no window taken so far touches, and the best window among them. */
typedef struct {
    int64_t first, end;
    Window best;
} Part;

/* Adds the part first … end − 1, searched, unless it is empty; −1 without memory. */
static int add_part(Search *s, const double *row, double *prefix, int64_t first, int64_t end,
                    Part *parts, int64_t *used) {
    if (first >= end) return 0;
    const int64_t bounds[2] = {0, end - first};
    const History h = {.frames = end - first, .runs = 1, .offsets = bounds};
    Part *part = parts + (*used)++;
    part->first = first, part->end = end;
    if (search_row(s, &h, row + first, prefix, &part->best)) return -1;
    part->best.start += first, part->best.end += first;
    return 0;
}

/* Up to `more` windows, best first: each the best that overlaps none before it and reaches `least`;
 * the rest of `out` gets score 0. As disjoint in scan.py. parts: room for stretches + more + 1. */
static int further_of_row(Search *s, const double *row, double *prefix, const int64_t *cuts,
                          int64_t stretches, Window taken, double least, int64_t more, Part *parts,
                          Window *out) {
    int64_t used = 0, found = 0;
    for (int64_t r = 0; r < stretches; r++) {
        const int64_t a = cuts[r], b = cuts[r + 1];
        const int holds = a <= taken.start && taken.end < b;
        if (add_part(s, row, prefix, a, holds ? taken.start : b, parts, &used)) return -1;
        if (holds && add_part(s, row, prefix, taken.end + 1, b, parts, &used)) return -1;
    }
    while (found < more) {
        int64_t chosen = -1;
        double top = 0.0;
        for (int64_t k = 0; k < used; k++)
            if (parts[k].best.score > top) top = parts[k].best.score;
        if (!(top > 0.0) || top < least) break;
        for (int64_t k = 0; k < used; k++) {
            const Window *own = &parts[k].best;
            if (own->score > 0.0 && own->score >= tie_threshold(top) &&
                (chosen < 0 || earlier(own, &parts[chosen].best)))
                chosen = k;
        }
        const Part whole = parts[chosen];
        parts[chosen] = parts[--used];
        out[found++] = whole.best;
        if (found == more) break;
        if (add_part(s, row, prefix, whole.first, whole.best.start, parts, &used) ||
            add_part(s, row, prefix, whole.best.end + 1, whole.end, parts, &used))
            return -1;
    }
    for (; found < more; found++) out[found] = (Window){0, 0, 0.0};
    return 0;
}

/* The same for every row (queries, frames): out (queries, more); −1 without memory. */
static int further(const double *rows, int64_t queries, int64_t frames, const int64_t *cuts,
                   int64_t stretches, const int64_t *start, const int64_t *end,
                   const double *least, int64_t more, int64_t *out_start, int64_t *out_end,
                   double *out_score) {
    const size_t room = (size_t)frames + 1;
    double *memory = malloc(5 * room * sizeof(double));
    Part *parts = malloc((size_t)(stretches + more + 1) * sizeof(Part));
    Window *out = malloc((size_t)more * sizeof(Window));
    int failed = !memory || !parts || !out;
    if (!failed) {
        double *norms = memory, *prefix = memory + room;
        const double half = sqrt((double)frames) / 2.0;
        Search search = {.norms = norms, .total = frames, .widest = half > 1.0 ? half : 1.0,
                         .hull = (int64_t *)(memory + 2 * room), .low = memory + 3 * room,
                         .lowest = memory + 4 * room};
        contrast_norms(frames, frames, norms);
        for (int64_t q = 0; q < queries && !failed; q++) {
            const Window taken = {start[q], end[q], 0.0};
            failed = further_of_row(&search, rows + q * frames, prefix, cuts, stretches, taken,
                                    least[q], more, parts, out);
            for (int64_t k = 0; k < more && !failed; k++) {
                out_start[q * more + k] = out[k].start, out_end[q * more + k] = out[k].end;
                out_score[q * more + k] = out[k].score;
            }
        }
        free(search.near);
    }
    free(memory);
    free(parts);
    free(out);
    return failed ? -1 : 0;
}
