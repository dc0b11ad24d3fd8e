/* Segments: the cheapest cut of stretches of frames. Included by body.h; as in _partition.py.
 *
 * A segment costs Σ‖x‖² − ‖Σx‖²/n and a penalty. Of each end t the best start is found among those
 * that may still win (PELT); products of prefix sums are made for some ends at a time, so that each
 * start is loaded once for all of them.
 */

#define ENDS 32   /* ends that are looked at before starts are dropped */
#define TOGETHER 4
#define STARTS 4096 /* starts that may still win: above it, every other one of the older half goes */
#define STRANDS 8 /* partial sums of a product: element j goes to sum j % 8, on every machine */

typedef struct {
    int64_t width;               /* dimensions, filled up with zeros to whole STRANDS */
    int64_t room;                /* for starts */
    double *sums;                /* (frames + 1, width): prefix sums, and some rows more */
    double *squares, *lengths;   /* (frames + 1): Σ‖x‖², ‖Σx‖² */
    int64_t *left;               /* (room): starts that may still win … */
    double *best, *square, *length, *until; /* … and of each of them what is asked for, … */
    double *rows;                /* (room, width): … and its prefix sums, side by side */
    double *products;            /* (ENDS, room) */
    void *memory;
} Cut;

static double strands_sum(double *x) {
    for (int l = 0; l < 4; l++) x[l] += x[l + 4];
    for (int l = 0; l < 2; l++) x[l] += x[l + 2];
    return x[0] + x[1];
}

/* Of one row with some others. */
static inline void products_of(const double *row, const double *others, int64_t width,
                               double *out) {
    double sums[TOGETHER][STRANDS] = {{0.0}};
    for (int64_t j = 0; j < width; j += STRANDS)
        for (int e = 0; e < TOGETHER; e++)
            for (int l = 0; l < STRANDS; l++)
                sums[e][l] += row[j + l] * others[e * width + j + l];
    for (int e = 0; e < TOGETHER; e++) out[e] = strands_sum(sums[e]);
}

static double square_of(const double *row, int64_t d) {
    double sums[STRANDS] = {0.0};
    for (int64_t j = 0; j < d; j++) sums[j % STRANDS] += row[j] * row[j];
    return strands_sum(sums);
}

static int lay_cut(Cut *c, int64_t frames, int64_t d) {
    c->width = (d + STRANDS - 1) / STRANDS * STRANDS;
    c->room = (frames < STARTS ? frames : STARTS) + ENDS + 1;
    const size_t n = (size_t)frames + 1, rows = n + TOGETHER, room = (size_t)c->room;
    const size_t width = (size_t)c->width;
    c->memory = calloc((rows + room) * width + 2 * n + room * (5 + ENDS), 8);
    if (!c->memory) return -1;
    double *at = c->memory;
    c->sums = at, at += rows * width;
    c->rows = at, at += room * width;
    c->squares = at, at += n;
    c->lengths = at, at += n;
    double **all[] = {&c->best, &c->square, &c->length, &c->until};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = at, at += room;
    c->products = at, at += room * ENDS;
    c->left = (int64_t *)at;
    return 0;
}

static void add_start(Cut *c, int64_t at, int64_t t, double best) {
    c->left[at] = t, c->best[at] = best;
    c->square[at] = c->squares[t], c->length[at] = c->lengths[t];
    memcpy(c->rows + at * c->width, c->sums + t * c->width, (size_t)c->width * sizeof(double));
}

/* Keep the start at `from` in an earlier place. */
static void move_start(Cut *c, int64_t from, int64_t to) {
    if (from != to) add_start(c, to, c->left[from], c->best[from]);
}

/* The cost of the first t frames by each of the first `count` starts; the index of the least. */
static int64_t try_cuts(Cut *c, const double *products, int64_t count, int64_t t) {
    const double square = c->squares[t], length = c->lengths[t];
    int64_t chosen = 0;
    for (int64_t i = 0; i < count; i++) {
        const double apart = (length + c->length[i]) - 2.0 * products[i];
        c->until[i] = c->best[i] + (square - c->square[i] - apart / (double)(t - c->left[i]));
    }
    for (int64_t i = 1; i < count; i++)
        if (c->until[i] < c->until[chosen]) chosen = i;
    return chosen;
}

/* Drop every other start of the older half, but never the one that wins now; how many are left. */
static int64_t thin_out(Cut *c, int64_t known, int64_t winner) {
    int64_t kept = 0;
    for (int64_t i = 0; i < known; i++)
        if (i >= known / 2 || i % 2 == 0 || c->left[i] == winner)
            move_start(c, i, kept++);
    return kept;
}

/* One stretch: start[t] for its first t + 1 frames, from its own first frame. */
static void cut_stretch(Cut *c, const double *rows, int64_t n, int64_t d, double penalty,
                        int64_t *start) {
    for (int64_t j = 0; j < d; j++) c->sums[j] = 0.0;
    c->squares[0] = c->lengths[0] = 0.0;
    for (int64_t t = 0; t < n; t++) {
        const double *before = c->sums + t * c->width;
        double *after = c->sums + (t + 1) * c->width;
        for (int64_t j = 0; j < d; j++) after[j] = before[j] + rows[t * d + j];
        c->squares[t + 1] = c->squares[t] + square_of(rows + t * d, d);
        c->lengths[t + 1] = square_of(after, d);
    }
    int64_t known = 1;
    add_start(c, 0, 0, -penalty);
    for (int64_t low = 1; low <= n; low += ENDS) {
        const int64_t ends = low + ENDS <= n + 1 ? ENDS : n + 1 - low;
        for (int64_t i = 0; i < ends; i++) add_start(c, known + i, low + i, 0.0);
        for (int64_t i = 0; i < known + ends; i++)
            for (int64_t e = 0; e < ends; e += TOGETHER) {
                double found[TOGETHER];
                products_of(c->rows + i * c->width, c->sums + (low + e) * c->width, c->width, found);
                for (int64_t k = 0; k < TOGETHER && e + k < ends; k++)
                    c->products[(e + k) * c->room + i] = found[k];
            }
        for (int64_t e = 0; e < ends; e++) {
            const int64_t t = low + e;
            const int64_t chosen = try_cuts(c, c->products + e * c->room, known + e, t);
            start[t - 1] = c->left[chosen];
            c->best[known + e] = c->until[chosen] + penalty;
        }
        const int64_t last = known + ends - 1;
        int64_t kept = 0;
        for (int64_t i = 0; i < last; i++) /* to cut never costs more than not to */
            if (c->until[i] <= c->best[last]) move_start(c, i, kept++);
        move_start(c, last, kept);
        known = kept + 1;
        if (known > STARTS) known = thin_out(c, known, start[low + ends - 2]);
    }
}

static int partition(const double *rows, int64_t d, const int64_t *cuts, int64_t stretches,
                     double penalty, int64_t *start) {
    int64_t most = 0;
    for (int64_t r = 0; r < stretches; r++)
        most = cuts[r + 1] - cuts[r] > most ? cuts[r + 1] - cuts[r] : most;
    Cut c;
    if (lay_cut(&c, most, d)) return -1;
    for (int64_t r = 0; r < stretches; r++)
        cut_stretch(&c, rows + cuts[r] * d, cuts[r + 1] - cuts[r], d, penalty, start + cuts[r]);
    free(c.memory);
    return 0;
}
