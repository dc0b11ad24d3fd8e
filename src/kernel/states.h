/* Evidence for states: smoothed over time, the best contrast, one labelling. Included by body.h. */

#include "contrast.h"

/* ── smoothing ─────────────────────────────────────────────────────────────────────────────── */

/* Sums of weight · value over the neighbours of each frame in one stretch without gaps; a CHUNK of
 * frames at a time stays in the cache. */
static void weigh_dense(const double *restrict x, int64_t n, const double *weights, int64_t reach,
                        double *restrict out) {
    if (reach > n - 1) reach = n - 1;
    for (int64_t first = 0; first < n; first += CHUNK) {
        const int64_t last = first + CHUNK < n ? first + CHUNK : n;
        for (int64_t t = first; t < last; t++) out[t] = 0.0;
        for (int64_t offset = -reach; offset <= reach; offset++) {
            const double weight = weights[offset < 0 ? -offset : offset];
            const int64_t from = first + offset < 0 ? -offset : first;
            const int64_t to = last + offset > n ? n - offset : last;
            for (int64_t t = from; t < to; t++) out[t] += weight * x[t + offset];
        }
    }
}

/* The same where frames are missing; numbers are those of the stretch. */
static void weigh_sparse(const double *x, int64_t n, const int64_t *numbers, const double *weights,
                         int64_t reach, double *out) {
    int64_t first = 0, last = 0;
    for (int64_t t = 0; t < n; t++) {
        while (numbers[t] - numbers[first] > reach) first++;
        while (last < n && numbers[last] - numbers[t] <= reach) last++;
        double sum = 0.0;
        for (int64_t u = first; u < last; u++) {
            const int64_t apart = numbers[u] - numbers[t];
            sum += weights[apart < 0 ? -apart : apart] * x[u];
        }
        out[t] = sum;
    }
}

static void weigh(const History *h, const double *x, double *out) {
    for (int64_t r = 0; r < h->runs; r++) {
        const int64_t a = h->offsets[r], n = h->offsets[r + 1] - a;
        const int64_t *numbers = h->numbers + a;
        if (numbers[n - 1] - numbers[0] == n - 1) weigh_dense(x + a, n, h->weights, h->reach, out + a);
        else weigh_sparse(x + a, n, numbers, h->weights, h->reach, out + a);
    }
}

/* Weighted means over the neighbours, then mean 0 and deviation 1; `wide` and `totals`: frames. */
static void smooth_row(const History *h, const float *row, double *wide, const double *totals,
                       double floor, double *out, double *centre, double *scale) {
    const int64_t n = h->frames;
    for (int64_t t = 0; t < n; t++) wide[t] = (double)row[t];
    weigh(h, wide, out);
    double sum = 0.0, squares = 0.0;
    for (int64_t t = 0; t < n; t++) out[t] /= totals[t];
    for (int64_t t = 0; t < n; t++) sum += out[t];
    *centre = sum / (double)n;
    for (int64_t t = 0; t < n; t++) out[t] -= *centre;
    for (int64_t t = 0; t < n; t++) squares += out[t] * out[t];
    const double deviation = sqrt(squares / (double)n);
    *scale = deviation > floor ? deviation : floor;
    for (int64_t t = 0; t < n; t++) out[t] /= *scale;
}

/* ── one labelling of all frames ───────────────────────────────────────────────────────────── */

/* Whether any of two or more states may come first, and any other may follow it. */
static int any_order(const Nodes *nodes, int64_t states) {
    if (states < 2 || nodes->count != states) return 0;
    for (int64_t j = 0; j < nodes->count; j++) {
        if (!nodes->first[j] || nodes->state[j] != j) return 0;
        for (int64_t k = 0; k < nodes->count; k++)
            if (!nodes->follows[j * nodes->count + k] != (j == k)) return 0;
    }
    return 1;
}

#define TURNED 16 /* frames whose responses are laid side by side at a time */

/* What best_path returns where states may follow each other in any order. A switch then comes from
 * the best state, or the second best where that is the best itself, so that a frame takes one pass
 * over the states. sums, scores: (stay + 1) × states; block: TURNED × states; leaders: 2 × (frames +
 * 1); entered: (frames + 1) × states, whether a state was entered `stay` frames ago. */
static void best_free_path(const History *h, const Nodes *nodes, const double *levels, double *sums,
                           double *scores, double *block, int32_t *leaders, uint8_t *entered,
                           int64_t *path) {
    const int64_t n = h->frames, states = h->queries, stay = nodes->stay, ring = stay + 1;
    for (int64_t i = 0; i < ring * states; i++) scores[i] = -INFINITY, sums[i] = 0.0;
    for (int64_t t = 1; t <= n; t++) {
        const int64_t in_block = (t - 1) % TURNED;
        if (!in_block)
            for (int64_t k = 0; k < states; k++)
                for (int64_t i = 0; i < TURNED && t - 1 + i < n; i++)
                    block[i * states + k] = h->responses[k * n + t - 1 + i] - levels[k];
        const double *row = block + in_block * states;
        double *now = sums + t % ring * states;
        const double *last = sums + (t - 1) % ring * states;
        const double *then = sums + (t + 1) % ring * states; /* t − stay */
        for (int64_t k = 0; k < states; k++) now[k] = last[k] + row[k];
        if (t < stay) continue;
        double *restrict best = scores + t % ring * states;
        const double *previous = scores + (t - 1) % ring * states;
        const double *left = scores + (t + 1) % ring * states;
        int64_t first = 0, second = -1;
        for (int64_t k = 1; k < states; k++)
            if (left[k] > left[first]) second = first, first = k;
            else if (second < 0 || left[k] > left[second]) second = k;
        leaders[2 * t] = (int32_t)first, leaders[2 * t + 1] = (int32_t)second;
        const double from_first = t > stay ? left[first] - nodes->cost : 0.0;
        const double from_second = t > stay ? left[second] - nodes->cost : 0.0;
        uint8_t *restrict enters = entered + t * states;
        const double longer_first = previous[first] + (now[first] - last[first]);
        const double enter_first = from_second + (now[first] - then[first]);
        for (int64_t k = 0; k < states; k++) {
            const double longer = previous[k] + (now[k] - last[k]);
            const double enter = from_first + (now[k] - then[k]);
            enters[k] = enter > longer;
            best[k] = enter > longer ? enter : longer;
        }
        enters[first] = enter_first > longer_first;
        best[first] = enter_first > longer_first ? enter_first : longer_first;
    }
    const double *best = scores + n % ring * states;
    int64_t state = 0;
    for (int64_t k = 1; k < states; k++)
        if (best[k] > best[state]) state = k;
    for (int64_t t = n; t > 0;) {
        const int enters = entered[t * states + state];
        const int64_t length = enters ? stay : 1;
        for (int64_t i = t - length; i < t; i++) path[i] = state;
        if (enters) state = leaders[2 * t] == state ? leaders[2 * t + 1] : leaders[2 * t];
        t -= length;
    }
}

/* The states of the path with the highest sum of responses less the cost of its switches, in which
 * every visit lasts at least `stay` frames; of equal paths the one that stays longer. As in
 * _labelling.py. scores: (stay + 1) × nodes; sources: (frames + 1) × nodes; sums: (frames + 1) × states. */
static void best_path(const History *h, const Nodes *nodes, const double *sums, double *scores,
                      int32_t *sources, int64_t *path) {
    const int64_t n = h->frames, count = nodes->count, states = h->queries;
    const int64_t stay = nodes->stay, ring = stay + 1;
    for (int64_t i = 0; i < ring * count; i++) scores[i] = -INFINITY;
    for (int64_t t = stay; t <= n; t++) {
        const double *now = sums + t * states, *last = now - states, *then = now - stay * states;
        double *best = scores + t % ring * count;
        const double *previous = scores + (t - 1) % ring * count;
        const double *left = scores + (t - stay) % ring * count;
        for (int64_t k = 0; k < count; k++) {
            const int64_t state = nodes->state[k];
            const double longer =
                t == stay ? -INFINITY : previous[k] + (now[state] - last[state]);
            double before = -INFINITY;
            int32_t origin = (int32_t)count;
            if (t == stay) before = nodes->first[k] ? 0.0 : -INFINITY;
            else {
                origin = 0;
                for (int64_t j = 0; j < count; j++)
                    if (nodes->follows[j * count + k] && left[j] > before)
                        before = left[j], origin = (int32_t)j;
                before -= nodes->cost;
            }
            const double enter = before + (now[state] - then[state]);
            best[k] = enter > longer ? enter : longer;
            sources[t * count + k] = enter > longer ? origin : -1;
        }
    }
    const double *best = scores + n % ring * count;
    int64_t node = 0;
    for (int64_t k = 1; k < count; k++)
        if (best[k] > best[node]) node = k;
    for (int64_t t = n; t > 0;) {
        const int32_t step = sources[t * count + node];
        const int64_t length = step < 0 ? 1 : stay;
        for (int64_t i = t - length; i < t; i++) path[i] = nodes->state[node];
        t -= length;
        if (step >= 0 && step < count) node = step;
    }
}

/* Half way between the mean inside and outside of each state; 0 where one of them is empty.
 * Returns whether they are the ones that were there. */
static int find_levels(const History *h, const int64_t *path, double *levels) {
    int same = 1;
    for (int64_t state = 0; state < h->queries; state++) {
        const double *row = h->responses + state * h->frames;
        double inside = 0.0, outside = 0.0, level = 0.0;
        int64_t count = 0;
        for (int64_t t = 0; t < h->frames; t++)
            if (path[t] == state) inside += row[t], count++;
            else outside += row[t];
        if (count && count < h->frames)
            level = (inside / (double)count + outside / (double)(h->frames - count)) / 2.0;
        same &= level == levels[state];
        levels[state] = level;
    }
    return same;
}

/* Levels and the best path by turns; −1 without memory. levels, next: states, all 0. */
static int label_any_order(const History *h, const Nodes *nodes, double *levels, double *next,
                           int64_t *path) {
    const size_t states = (size_t)h->queries, rows = (size_t)h->frames + 1;
    const size_t ring = (size_t)nodes->stay + 1;
    double *sums = malloc((2 * ring + TURNED) * states * sizeof(double));
    int32_t *leaders = malloc(2 * rows * sizeof(int32_t));
    uint8_t *entered = malloc(rows * states);
    const int failed = !sums || !leaders || !entered;
    for (int64_t round = 0; round < nodes->rounds && !failed; round++) {
        memcpy(levels, next, states * sizeof(double));
        best_free_path(h, nodes, levels, sums, sums + ring * states, sums + 2 * ring * states, leaders,
                       entered, path);
        if (find_levels(h, path, next)) break;
    }
    free(sums);
    free(leaders);
    free(entered);
    return failed ? -1 : 0;
}

static int label_in_order(const History *h, const Nodes *nodes, double *levels, double *next,
                          int64_t *path) {
    const size_t states = (size_t)h->queries, rows = (size_t)h->frames + 1;
    const size_t count = (size_t)nodes->count, ring = (size_t)nodes->stay + 1;
    double *sums = malloc((rows * states + ring * count) * sizeof(double));
    int32_t *sources = malloc(rows * count * sizeof(int32_t));
    const int failed = !sums || !sources;
    for (int64_t round = 0; round < nodes->rounds && !failed; round++) {
        memcpy(levels, next, states * sizeof(double));
        for (size_t k = 0; k < states; k++) sums[k] = 0.0;
        for (int64_t t = 0; t < h->frames; t++)
            for (size_t k = 0; k < states; k++)
                sums[(size_t)(t + 1) * states + k] =
                    sums[(size_t)t * states + k] + (h->responses[k * (rows - 1) + (size_t)t] - levels[k]);
        best_path(h, nodes, sums, sums + rows * states, sources, path);
        if (find_levels(h, path, next)) break;
    }
    free(sums);
    free(sources);
    return failed ? -1 : 0;
}

static Status label(const History *h, const Nodes *nodes, int64_t *path, double *levels) {
    Status status = check_responses(h);
    double *next = calloc((size_t)h->queries, sizeof(double));
    if (!next) status.code = NO_MEMORY;
    if (!status.code && (any_order(nodes, h->queries)
                             ? label_any_order(h, nodes, levels, next, path)
                             : label_in_order(h, nodes, levels, next, path)))
        status.code = NO_MEMORY;
    free(next);
    return status;
}

/* ── windows ───────────────────────────────────────────────────────────────────────────────── */

static void answer(const Window *window, Answers a, int64_t at) {
    a.start[at] = window->start, a.end[at] = window->end, a.score[at] = window->score;
}

/* State evidence of cosines and, where answers have a place, the best contrast of each row while it
 * is in the cache. */
static Status contrast(const History *h, Answers a) {
    Scratch s;
    Status status = check_cosines(h);
    if (!status.code) status.code = prepare(h, &s, STATES);
    if (status.code) return status;
    for (int64_t t = 0; t < h->frames; t++) s.wide[t] = 1.0;
    weigh(h, s.wide, s.totals);
    Search search = {0};
    if (a.start) search = new_search(h->frames, s.search);
    for (int64_t q = 0; q < h->queries && !status.code; q++) {
        double *row = h->responses + q * h->frames;
        Window window;
        smooth_row(h, h->cosines + q * h->frames, s.wide, s.totals, h->least_scale, row, a.centre + q,
                   a.scale + q);
        if (!a.start) continue;
        if (search_row(&search, h, row, s.sums, &window)) status.code = NO_MEMORY;
        else answer(&window, a, q);
    }
    free(search.near);
    free(s.memory);
    return status;
}

static Status search_parts(const History *h, const Parts *parts, Answers a) {
    Scratch s;
    Status status = check_responses(h);
    if (!status.code) status.code = prepare(h, &s, STATES);
    if (status.code) return status;
    Search search = new_search(h->frames, s.search);
    for (int64_t p = 0; p < parts->count && !status.code; p++) {
        const int64_t offsets[2] = {0, parts->stop[p] - parts->first[p]};
        const History part = {.frames = offsets[1], .runs = 1, .offsets = offsets};
        const double *row = h->responses + parts->row[p] * h->frames + parts->first[p];
        Window window;
        if (search_row(&search, &part, row, s.sums, &window)) status.code = NO_MEMORY;
        window.start += parts->first[p], window.end += parts->first[p];
        answer(&window, a, p);
    }
    free(search.near);
    free(s.memory);
    return status;
}

/* Of each row, the best contrast inside a stretch. */
static Status search(const History *h, Answers a) {
    Scratch s;
    Status status = check_responses(h);
    if (!status.code) status.code = prepare(h, &s, STATES);
    if (status.code) return status;
    Search search = new_search(h->frames, s.search);
    for (int64_t q = 0; q < h->queries && !status.code; q++) {
        Window window;
        if (search_row(&search, h, h->responses + q * h->frames, s.sums, &window)) status.code = NO_MEMORY;
        else answer(&window, a, q);
    }
    free(search.near);
    free(s.memory);
    return status;
}
