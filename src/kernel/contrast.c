/* Inside against outside: smoothed evidence and its best window over all durations, exactly.
 *
 * A window of ℓ of the n observed frames scores D/√(ℓ(1 − ℓ/n)), D the sum of its responses, which
 * have mean zero. Half its square is the largest value of  (a − b)·D − (a² − b²)·ℓ/2 − b²·n/2  over
 * the levels a inside and b outside. For fixed levels that is linear in (position, prefix sum), so
 *   - only starts on the lower convex hull of the prefix sums can win;
 *   - a window begins where the response does not fall and ends where it does not rise.
 * Both are applied with a tolerance that keeps every window the tie rule may look at, so the answer
 * is that of trying them all (scan.py); numpy does that, in the same order of summation.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TIE 1e-9

typedef struct {
    int64_t start, end;
    double score;
} Window;

typedef struct {
    int64_t *hull;    /* starts */
    double *prefix;   /* n + 1 sums */
    Window *near;     /* windows within the tie of the best so far */
    int64_t near_used, near_room;
} Work;

static double threshold(double best) { return best - TIE * fmax(1.0, fabs(best)); }

/* Keeps a window that may still be chosen; −1 without memory. */
static int keep(Work *w, Window window, double best) {
    if (w->near_used == w->near_room) {
        int64_t kept = 0;
        const double least = threshold(best);
        for (int64_t k = 0; k < w->near_used; k++)
            if (w->near[k].score >= least) w->near[kept++] = w->near[k];
        w->near_used = kept;
        if (2 * kept > w->near_room) {
            Window *more = realloc(w->near, (size_t)w->near_room * 2 * sizeof(Window));
            if (!more) return -1;
            w->near = more, w->near_room *= 2;
        }
    }
    w->near[w->near_used++] = window;
    return 0;
}

/* One row of responses; norms[ℓ] for ℓ = 1 … n; no window within the tie deviates by `loose`. */
static int search_row(const double *row, const int64_t *cuts, int64_t stretches,
                      const double *norms, double loose, Work *w, Window *found) {
    const int64_t n = cuts[stretches];
    double *prefix = w->prefix, best = -INFINITY;
    prefix[0] = 0.0;
    for (int64_t t = 0; t < n; t++) prefix[t + 1] = prefix[t] + row[t];
    w->near_used = 0;
    for (int64_t r = 0; r < stretches; r++) {
        const int64_t first = cuts[r], last = cuts[r + 1] - 1;
        int64_t *hull = w->hull, size = 0;
        for (int64_t t = first; t <= last; t++) {
            if (t == first || row[t] >= row[t - 1] - loose) {
                while (size >= 2) {
                    const int64_t a = hull[size - 2], b = hull[size - 1];
                    const double slope = (prefix[t] - prefix[a]) / (double)(t - a);
                    if (prefix[b] - (prefix[a] + slope * (double)(b - a)) <= loose) break;
                    size--;
                }
                hull[size++] = t;
            }
            if (t != last && row[t] < row[t + 1] - loose) continue;
            const double sum = prefix[t + 1];
            double least = best == -INFINITY ? best : threshold(best);
            for (int64_t k = 0; k < size; k++) {
                const double inside = sum - prefix[hull[k]], norm = norms[t + 1 - hull[k]];
                if (inside < least * norm - 1e-12 * norm) continue; /* a division less */
                const double score = inside / norm;
                if (score < least) continue;
                if (score > best) best = score, least = threshold(best);
                if (keep(w, (Window){hull[k], t, score}, best)) return -1;
            }
        }
    }
    const double least = threshold(best);
    found->start = -1;
    for (int64_t k = 0; k < w->near_used; k++) {
        const Window own = w->near[k];
        if (own.score < least) continue;
        if (found->start < 0 || own.start < found->start ||
            (own.start == found->start && own.end < found->end))
            *found = own;
    }
    return 0;
}

/* The frames of each stretch within reach: for frame t, positions low[t] … high[t] − 1, and the
 * sum of their weights. */
static void neighbours(const int64_t *frames, const int64_t *cuts, int64_t stretches,
                       const double *weights, int64_t reach, int64_t *low, int64_t *high,
                       double *totals) {
    for (int64_t r = 0; r < stretches; r++) {
        int64_t first = cuts[r], last = cuts[r];
        for (int64_t t = cuts[r]; t < cuts[r + 1]; t++) {
            while (frames[t] - frames[first] > reach) first++;
            while (last < cuts[r + 1] && frames[last] - frames[t] <= reach) last++;
            low[t] = first, high[t] = last, totals[t] = 0.0;
            for (int64_t s = first; s < last; s++)
                totals[t] += weights[llabs(frames[s] - frames[t])];
        }
    }
}

/* Weighted means over the neighbours, then mean 0 and deviation 1. */
static void smooth_row(const float *row, int64_t n, const int64_t *frames, const double *weights,
                       const int64_t *low, const int64_t *high, const double *totals, double floor,
                       double *out, double *centre, double *scale) {
    for (int64_t t = 0; t < n; t++) {
        double sum = 0.0;
        for (int64_t s = low[t]; s < high[t]; s++)
            sum += weights[llabs(frames[s] - frames[t])] * (double)row[s];
        out[t] = sum / totals[t];
    }
    double sum = 0.0, squares = 0.0;
    for (int64_t t = 0; t < n; t++) sum += out[t];
    *centre = sum / (double)n;
    for (int64_t t = 0; t < n; t++) {
        out[t] -= *centre;
        squares += out[t] * out[t];
    }
    *scale = fmax(sqrt(squares / (double)n), floor);
    for (int64_t t = 0; t < n; t++) out[t] /= *scale;
}

/* ── buffers ───────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    Py_buffer views[8];
    int used;
} Held;

static void release(Held *held) {
    while (held->used) PyBuffer_Release(&held->views[--held->used]);
}

static void *hold(Held *held, PyObject *object, int64_t item, int64_t items, int writable,
                  const char *name, int64_t *found) {
    Py_buffer *view = &held->views[held->used];
    if (PyObject_GetBuffer(object, view, PyBUF_ND | (writable ? PyBUF_WRITABLE : 0))) return NULL;
    held->used++;
    if (view->itemsize != item || (items >= 0 && view->len != items * item)) {
        PyErr_Format(PyExc_ValueError, "%s: wrong size or type", name);
        return NULL;
    }
    if (found) *found = view->len / item;
    return view->buf;
}

/* Where stretches begin, from 0 to the number of frames. */
static const int64_t *hold_cuts(Held *held, PyObject *object, int64_t *stretches) {
    const int64_t *cuts = hold(held, object, 8, -1, 0, "cuts", stretches);
    if (!cuts) return NULL;
    int good = *stretches >= 2 && cuts[0] == 0;
    for (int64_t r = 1; good && r < *stretches; r++) good = cuts[r] > cuts[r - 1];
    if (!good) {
        PyErr_SetString(PyExc_ValueError, "cuts: must ascend from 0");
        return NULL;
    }
    --*stretches;
    return cuts;
}

static PyObject *search(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *o_rows, *o_cuts, *o_norms, *o_start, *o_end, *o_score;
    double loose;
    if (!PyArg_ParseTuple(args, "OOOdOOO", &o_rows, &o_cuts, &o_norms, &loose, &o_start, &o_end,
                          &o_score))
        return NULL;
    Held held = {.used = 0};
    Work w = {NULL, NULL, NULL, 0, 64};
    int64_t stretches, rows = 0;
    int failed = 1;
    const int64_t *cuts = hold_cuts(&held, o_cuts, &stretches);
    if (!cuts) goto done;
    const int64_t n = cuts[stretches];
    const double *norms = hold(&held, o_norms, 8, n + 1, 0, "norms", NULL);
    int64_t *start = norms ? hold(&held, o_start, 8, -1, 1, "start", &rows) : NULL;
    int64_t *end = start ? hold(&held, o_end, 8, rows, 1, "end", NULL) : NULL;
    double *score = end ? hold(&held, o_score, 8, rows, 1, "score", NULL) : NULL;
    const double *values = score ? hold(&held, o_rows, 8, rows * n, 0, "responses", NULL) : NULL;
    if (!values) goto done;
    w.hull = malloc((size_t)n * sizeof(int64_t));
    w.prefix = malloc((size_t)(n + 1) * sizeof(double));
    w.near = malloc((size_t)w.near_room * sizeof(Window));
    failed = !w.hull || !w.prefix || !w.near;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t q = 0; q < rows && !failed; q++) {
        Window found = {-1, -1, 0.0};
        failed = search_row(values + q * n, cuts, stretches, norms, loose, &w, &found);
        start[q] = found.start, end[q] = found.end, score[q] = found.score;
    }
    Py_END_ALLOW_THREADS
    if (failed) PyErr_NoMemory();
done:
    free(w.hull);
    free(w.prefix);
    free(w.near);
    release(&held);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyObject *smooth(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *o_rows, *o_frames, *o_cuts, *o_weights, *o_out, *o_centre, *o_scale;
    double floor;
    if (!PyArg_ParseTuple(args, "OOOOdOOO", &o_rows, &o_frames, &o_cuts, &o_weights, &floor, &o_out,
                          &o_centre, &o_scale))
        return NULL;
    Held held = {.used = 0};
    int64_t stretches, rows = 0, count = 0, *low = NULL;
    double *totals = NULL;
    int failed = 1;
    const int64_t *cuts = hold_cuts(&held, o_cuts, &stretches);
    if (!cuts) goto done;
    const int64_t n = cuts[stretches];
    const int64_t *frames = hold(&held, o_frames, 8, n, 0, "frames", NULL);
    const double *weights = frames ? hold(&held, o_weights, 8, -1, 0, "weights", &count) : NULL;
    double *centre = weights ? hold(&held, o_centre, 8, -1, 1, "centre", &rows) : NULL;
    double *scale = centre ? hold(&held, o_scale, 8, rows, 1, "scale", NULL) : NULL;
    double *out = scale ? hold(&held, o_out, 8, rows * n, 1, "responses", NULL) : NULL;
    const float *values = out ? hold(&held, o_rows, 4, rows * n, 0, "cosines", NULL) : NULL;
    if (!values) goto done;
    int bad = count < 1;
    for (int64_t t = 1; t < n; t++) bad |= frames[t] <= frames[t - 1];
    if (bad) {
        PyErr_SetString(PyExc_ValueError, "frames must ascend, and there must be a weight");
        goto done;
    }
    low = malloc((size_t)n * 2 * sizeof(int64_t));
    totals = malloc((size_t)n * sizeof(double));
    if (!low || !totals) {
        PyErr_NoMemory();
        goto done;
    }
    failed = 0;
    Py_BEGIN_ALLOW_THREADS
    neighbours(frames, cuts, stretches, weights, count - 1, low, low + n, totals);
    for (int64_t q = 0; q < rows; q++)
        smooth_row(values + q * n, n, frames, weights, low, low + n, totals, floor, out + q * n,
                   centre + q, scale + q);
    Py_END_ALLOW_THREADS
done:
    free(low);
    free(totals);
    release(&held);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"search", search, METH_VARARGS, "The best window of each row; see dejacue.method.contrast."},
    {"smooth", smooth, METH_VARARGS, "Smoothed, centred, scaled; see dejacue.method.contrast."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_contrast", NULL, 0, methods,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__contrast(void) { return PyModule_Create(&definition); }
