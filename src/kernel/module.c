/* The door between Python and the two builds of the kernel.
 *
 * A function for each operation takes the name of the build, then arrays and numbers in the order of
 * its comment. Every shape and offset is checked here before a pointer is followed, and the GIL is
 * released while the engine works. It returns None, or why it refuses a value: (code, frame).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

#define MOST_ARRAYS 16 /* of a call */

#if (defined(__x86_64__) || defined(_M_X64)) && defined(_MSC_VER)
#include <intrin.h>
static int has_avx2(void) {
    int r[4];
    __cpuid(r, 0);
    if (r[0] < 7) return 0;
    __cpuid(r, 1);
    if ((r[2] & (1 << 12)) == 0 || (r[2] & (1 << 27)) == 0 || (r[2] & (1 << 29)) == 0) return 0;
    if ((_xgetbv(0) & 6) != 6) return 0;
    __cpuidex(r, 7, 0);
    return (r[1] & (1 << 5)) != 0;
}
#elif defined(__x86_64__)
#include <cpuid.h>
static int has_avx2(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_F16C)) return 0;
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
static int has_avx2(void) { return 0; }
#endif

static int avx2_here; /* asked once: under a hypervisor the question takes microseconds */

/* ── arguments ─────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    const Engine *engine;
    Py_buffer views[MOST_ARRAYS];
    int used;
} Call;

static int refuse(const char *name, const char *reason) {
    PyErr_Format(PyExc_ValueError, "%s: %s", name, reason);
    return 0;
}

static int check(int good, const char *name, const char *reason) {
    return good ? 1 : refuse(name, reason);
}

/* Finds the build; 0 with an error where there is none, or where arguments are missing. */
static int begin(Call *c, PyObject *const *args, Py_ssize_t count, Py_ssize_t expected) {
    c->used = 0;
    if (count != expected) {
        PyErr_Format(PyExc_TypeError, "%zd arguments are needed, not %zd", expected, count);
        return 0;
    }
    Py_ssize_t length;
    const char *name = PyUnicode_AsUTF8AndSize(args[0], &length);
    if (!name) return 0;
    c->engine = !strcmp(name, "baseline") ? &engine_baseline : &engine_avx2;
    return check(c->engine == &engine_baseline || (avx2_here && !strcmp(name, "avx2")), name,
                 "this machine has no such kernel");
}

enum { INPUT, OUTPUT };

/* A contiguous array with items of `item` bytes (0: 2 or 4). Sizes are checked, or filled in where
 * they are still −1; `columns` is NULL for an array of one dimension. NULL with an error. */
static void *take(Call *c, PyObject *object, const char *name, int64_t item, int mode, int64_t *rows,
                  int64_t *columns) {
    Py_buffer *view = c->views + c->used;
    if (PyObject_GetBuffer(object, view, PyBUF_ND | (mode == OUTPUT ? PyBUF_WRITABLE : 0))) return NULL;
    c->used++;
    int64_t *sizes[] = {rows, columns};
    if (!check(view->ndim == (columns ? 2 : 1), name, "wrong number of dimensions") ||
        !check(item ? view->itemsize == item : view->itemsize == 2 || view->itemsize == 4, name,
               "wrong type of items"))
        return NULL;
    for (int k = 0; k < view->ndim; k++) {
        if (*sizes[k] < 0) *sizes[k] = view->shape[k];
        if (!check(*sizes[k] == view->shape[k], name, "wrong shape")) return NULL;
    }
    return view->buf;
}

#define TAKE(TARGET, INDEX, ITEM, MODE, ROWS, COLUMNS) \
    (((TARGET) = take(&c, args[INDEX], #TARGET, ITEM, MODE, ROWS, COLUMNS)) != NULL)

static int take_number(PyObject *object, const char *name, int64_t least, int64_t most, int64_t *out) {
    *out = PyLong_AsLongLong(object);
    if (*out == -1 && PyErr_Occurred()) return 0;
    return check(*out >= least && *out <= most, name, "out of range");
}

static int take_real(PyObject *object, const char *name, double *out) {
    *out = PyFloat_AsDouble(object);
    if (*out == -1.0 && PyErr_Occurred()) return 0;
    return check(*out >= 0.0 && *out < 1e300, name, "out of range");
}

/* How much there may be: positions are 32 bits wide in places, and tables must have a size. */
static int fits(const History *h) {
    return check(h->frames >= 1 && h->frames <= INT32_MAX && h->queries >= 0 &&
                     h->queries <= INT64_MAX / 64 / h->frames,
                 "frames", "at least one and fewer than 2^31");
}

/* Offsets ascend from 0 to the number of frames. */
static int take_runs(Call *c, PyObject *object, History *h) {
    int64_t count = -1;
    h->offsets = take(c, object, "runs", 8, INPUT, &count, NULL);
    if (!h->offsets) return 0;
    h->runs = count - 1;
    int good = h->runs >= 1 && h->offsets[0] == 0 && h->offsets[h->runs] == h->frames;
    for (int64_t r = 0; good && r < h->runs; r++) good = h->offsets[r] < h->offsets[r + 1];
    return check(good, "runs", "must ascend from 0 to the number of frames");
}

/* Features, and a direction for each query: NULL for none. */
static int take_features(Call *c, PyObject *features, PyObject *queries, History *h) {
    h->frames = h->queries = h->dimension = -1;
    h->features = take(c, features, "features", 0, INPUT, &h->frames, &h->dimension);
    if (!h->features) return 0;
    h->half = c->views[0].itemsize == 2;
    if (!queries) h->queries = 0;
    else if (!(h->table = take(c, queries, "queries", 4, INPUT, &h->queries, &h->dimension))) return 0;
    return check(h->dimension >= 1 && h->dimension < 1 << 28, "features", "wrong dimension") && fits(h);
}

static int take_cosines(Call *c, PyObject *object, History *h) {
    h->frames = h->queries = -1;
    h->cosines = take(c, object, "cosines", 4, INPUT, &h->queries, &h->frames);
    return h->cosines && fits(h);
}

static int take_responses(Call *c, PyObject *object, History *h) {
    h->frames = h->queries = -1;
    h->responses = take(c, object, "responses", 8, INPUT, &h->queries, &h->frames);
    return h->responses && fits(h);
}

/* Features, queries, centre (or None) and where their cosines go; without features, cosines. */
static int take_rows(Call *c, PyObject *const *args, History *h) {
    if (args[0] == Py_None) return take_cosines(c, args[3], h);
    return take_features(c, args[0], args[1], h) &&
           (args[2] == Py_None ||
            (h->centre = take(c, args[2], "centre", 4, INPUT, &h->dimension, NULL))) &&
           (h->cosines = take(c, args[3], "cosines", 4, OUTPUT, &h->queries, &h->frames));
}

/* Lengths ascend, so that a scan may stop at the first that does not fit. */
static int take_lengths(Call *c, PyObject *lengths, PyObject *norms, History *h) {
    h->lengths_count = -1;
    h->lengths = take(c, lengths, "lengths", 8, INPUT, &h->lengths_count, NULL);
    if (!h->lengths || !(h->norms = take(c, norms, "norms", 8, INPUT, &h->lengths_count, NULL))) return 0;
    int good = 1;
    for (int64_t i = 0; good && i < h->lengths_count; i++)
        good = h->lengths[i] >= (i ? h->lengths[i - 1] + 1 : 1) && h->norms[i] > 0.0;
    return check(good, "lengths", "must ascend, and norms be positive");
}

/* Frame numbers ascend and stay where differences cannot overflow; weights, by distance. */
static int take_smoothing(Call *c, PyObject *numbers, PyObject *weights, PyObject *least, History *h) {
    const int64_t most = (int64_t)1 << 54, n = h->frames;
    int64_t count = -1;
    if (!(h->numbers = take(c, numbers, "numbers", 8, INPUT, &h->frames, NULL))) return 0;
    int good = h->numbers[0] >= -most && h->numbers[n - 1] <= most;
    for (int64_t t = 1; good && t < n; t++) good = h->numbers[t] > h->numbers[t - 1];
    if (!check(good, "numbers", "must ascend within 2^54")) return 0;
    if (!(h->weights = take(c, weights, "weights", 8, INPUT, &count, NULL))) return 0;
    h->reach = count - 1;
    good = count >= 1 && h->weights[0] > 0.0;
    for (int64_t i = 0; good && i < count; i++) good = h->weights[i] >= 0.0 && h->weights[i] <= 1.0;
    return check(good, "weights", "must lie between 0 and 1, the first above 0") &&
           take_real(least, "least scale", &h->least_scale) &&
           check(h->least_scale > 0.0, "least scale", "must be above 0");
}

static int take_windows(Call *c, PyObject *const *args, int64_t rows, Answers *a) {
    return (a->start = take(c, args[0], "start", 8, OUTPUT, &rows, NULL)) &&
           (a->end = take(c, args[1], "end", 8, OUTPUT, &rows, NULL)) &&
           (a->score = take(c, args[2], "score", 8, OUTPUT, &rows, NULL));
}

static int take_scales(Call *c, PyObject *const *args, int64_t rows, Answers *a) {
    return (a->centre = take(c, args[0], "centre", 8, OUTPUT, &rows, NULL)) &&
           (a->scale = take(c, args[1], "scale", 8, OUTPUT, &rows, NULL));
}

/* If the arguments are good, computes the cosines of features, and then does the operation; hands
 * the arrays back. */
#define RUN_IF(GOOD, OPERATION)                                                              \
    Status status = {OK, 0};                                                                 \
    const int good = (GOOD);                                                                 \
    if (good) {                                                                              \
        Py_BEGIN_ALLOW_THREADS                                                               \
        if (h.features && h.cosines) status = c.engine->cosines(&h);                         \
        if (!status.code) OPERATION;                                                         \
        Py_END_ALLOW_THREADS                                                                 \
    }                                                                                        \
    for (int k = 0; k < c.used; k++) PyBuffer_Release(c.views + k);                          \
    if (!good) return NULL;                                                                  \
    if (status.code == NO_MEMORY) return PyErr_NoMemory();                                   \
    if (status.code) return Py_BuildValue("iL", status.code, (long long)status.row);         \
    return Py_NewRef(Py_None)

#define FUNCTION(NAME) static PyObject *NAME(PyObject *self, PyObject *const *args, Py_ssize_t count)
#define START(EXPECTED)                                          \
    (void)self;                                                  \
    Call c;                                                      \
    History h = {0};                                             \
    Answers a = {0};                                             \
    (void)a;                                                     \
    if (!begin(&c, args, count, EXPECTED)) return NULL

/* ── operations ────────────────────────────────────────────────────────────────────────────── */

/* Rows are features (N, d), queries (Q, d), centre (d,) or None, and where their cosines (Q, N) go;
 * or None, None, None and cosines. */

/* rows */
FUNCTION(cosines) {
    START(5);
    RUN_IF(take_rows(&c, args + 1, &h), (void)0);
}

/* features (N, d) → centre (d,) */
FUNCTION(centre) {
    START(3);
    float *out;
    RUN_IF(take_features(&c, args[1], NULL, &h) && TAKE(out, 2, 4, OUTPUT, &h.dimension, NULL),
           status = c.engine->centre(&h, out));
}

/* cosines (Q, N), runs, smoothing → responses (Q, N), centre (Q,), scale (Q,) */
FUNCTION(respond) {
    START(7);
    RUN_IF(take_cosines(&c, args[1], &h) && take_runs(&c, args[2], &h) &&
               take_number(args[3], "smoothing", 1, INT32_MAX, &h.smoothing) &&
               check(h.smoothing % 2 == 1, "smoothing", "must be odd") &&
               TAKE(h.responses, 4, 8, OUTPUT, &h.queries, &h.frames) &&
               take_scales(&c, args + 5, h.queries, &a),
           status = c.engine->respond(&h, a));
}

/* responses (Q, N), runs, lengths, norms → start, end, score */
FUNCTION(scan) {
    START(8);
    RUN_IF(take_responses(&c, args[1], &h) && take_runs(&c, args[2], &h) &&
               take_lengths(&c, args[3], args[4], &h) && take_windows(&c, args + 5, h.queries, &a),
           status = c.engine->locate(&h, a));
}

/* cosines (Q, N), numbers (N,), cuts, weights, least scale → responses (Q, N), centre, scale */
FUNCTION(smooth) {
    START(9);
    RUN_IF(take_cosines(&c, args[1], &h) && take_runs(&c, args[3], &h) &&
               take_smoothing(&c, args[2], args[4], args[5], &h) &&
               TAKE(h.responses, 6, 8, OUTPUT, &h.queries, &h.frames) &&
               take_scales(&c, args + 7, h.queries, &a),
           status = c.engine->contrast(&h, a));
}

/* responses (Q, N), cuts → start, end, score */
FUNCTION(search) {
    START(6);
    RUN_IF(take_responses(&c, args[1], &h) && take_runs(&c, args[2], &h) &&
               take_windows(&c, args + 3, h.queries, &a),
           status = c.engine->search(&h, a));
}

/* responses (Q, N), row (P,), first (P,), stop (P,) → start, end, score (P,) */
FUNCTION(search_parts) {
    START(8);
    Parts parts = {.count = -1};
    int ready = take_responses(&c, args[1], &h) && TAKE(parts.row, 2, 8, INPUT, &parts.count, NULL) &&
                TAKE(parts.first, 3, 8, INPUT, &parts.count, NULL) &&
                TAKE(parts.stop, 4, 8, INPUT, &parts.count, NULL);
    for (int64_t p = 0; ready && p < parts.count; p++)
        ready = check(parts.row[p] >= 0 && parts.row[p] < h.queries && parts.first[p] >= 0 &&
                          parts.first[p] < parts.stop[p] && parts.stop[p] <= h.frames,
                      "parts", "must lie inside the responses");
    RUN_IF(ready && take_windows(&c, args + 5, parts.count, &a),
           status = c.engine->search_parts(&h, &parts, a));
}

/* responses (S, N), state (K,), first (K,), follows (K, K), cost, stay, rounds → path (N,), levels (S,) */
FUNCTION(label) {
    START(10);
    Nodes nodes = {.count = -1};
    int64_t *path;
    double *levels;
    int ready = take_responses(&c, args[1], &h) && check(h.queries >= 1, "responses", "no state") &&
                TAKE(nodes.state, 2, 8, INPUT, &nodes.count, NULL) &&
                TAKE(nodes.first, 3, 1, INPUT, &nodes.count, NULL) &&
                TAKE(nodes.follows, 4, 1, INPUT, &nodes.count, &nodes.count) &&
                take_real(args[5], "cost", &nodes.cost) &&
                take_number(args[6], "stay", 1, h.frames, &nodes.stay) &&
                take_number(args[7], "rounds", 1, 1000, &nodes.rounds) &&
                check(nodes.count >= 1 && nodes.count < 1 << 15, "nodes", "at least one");
    int starts = 0;
    for (int64_t k = 0; ready && k < nodes.count; k++) {
        ready = check(nodes.state[k] >= 0 && nodes.state[k] < h.queries, "nodes", "no such state");
        starts |= nodes.first[k];
    }
    RUN_IF(ready && check(starts, "nodes", "none may come first") &&
               TAKE(path, 8, 8, OUTPUT, &h.frames, NULL) && TAKE(levels, 9, 8, OUTPUT, &h.queries, NULL),
           status = c.engine->label(&h, &nodes, path, levels));
}

/* ── many histories ────────────────────────────────────────────────────────────────────────── */

typedef struct {
    Call c;
    History h;
    Answers a;
} Job;

/* rows, runs, smoothing, lengths, norms → start, end, score: respond, then scan */
static int take_locate(Job *j, PyObject *const *args) {
    return take_rows(&j->c, args, &j->h) && take_runs(&j->c, args[4], &j->h) &&
           take_number(args[5], "smoothing", 1, INT32_MAX, &j->h.smoothing) &&
           check(j->h.smoothing % 2 == 1, "smoothing", "must be odd") &&
           take_lengths(&j->c, args[6], args[7], &j->h) &&
           take_windows(&j->c, args + 8, j->h.queries, &j->a);
}

/* rows, numbers, … as smooth → and start, end, score: search, while each row is in the cache */
static int take_contrast(Job *j, PyObject *const *args) {
    return take_rows(&j->c, args, &j->h) && take_runs(&j->c, args[5], &j->h) &&
           take_smoothing(&j->c, args[4], args[6], args[7], &j->h) &&
           (j->h.responses = take(&j->c, args[8], "responses", 8, OUTPUT, &j->h.queries, &j->h.frames)) &&
           take_scales(&j->c, args + 9, j->h.queries, &j->a) &&
           take_windows(&j->c, args + 11, j->h.queries, &j->a);
}

/* A list of histories, a tuple of arguments each: the features of one follow those of the other
 * through the cache with nothing in between. Refuses with (code, frame, which history). */
static PyObject *each(PyObject *const *args, Py_ssize_t count, Py_ssize_t expected, int contrast) {
    Call c;
    PyObject *items[MOST_ARRAYS];
    if (!begin(&c, args, count, 2)) return NULL;
    const Py_ssize_t jobs = PyList_Size(args[1]);
    if (jobs < 0) return NULL;
    Job *all = calloc((size_t)jobs + 1, sizeof(Job));
    if (!all) return PyErr_NoMemory();
    int good = 1;
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; good && i < jobs; i++) {
        PyObject *job = PyList_GetItem(args[1], i);
        const Py_ssize_t size = PyTuple_Size(job);
        good = size >= 0 && check(size == expected, "job", "wrong number of arguments");
        for (Py_ssize_t k = 0; good && k < size; k++) items[k] = PyTuple_GetItem(job, k);
        good = good && (contrast ? take_contrast(all + i, items) : take_locate(all + i, items));
    }
    Status status = {OK, 0};
    if (good) {
        Py_BEGIN_ALLOW_THREADS
        for (; at < jobs && !status.code; at++) {
            const History *h = &all[at].h;
            if (h->features) status = c.engine->cosines(h);
            if (status.code) continue;
            status = contrast ? c.engine->contrast(h, all[at].a) : c.engine->locate(h, all[at].a);
        }
        Py_END_ALLOW_THREADS
    }
    for (Py_ssize_t i = 0; i < jobs; i++)
        for (int k = 0; k < all[i].c.used; k++) PyBuffer_Release(all[i].c.views + k);
    free(all);
    if (!good) return NULL;
    if (status.code == NO_MEMORY) return PyErr_NoMemory();
    if (status.code) return Py_BuildValue("iLn", status.code, (long long)status.row, at - 1);
    return Py_NewRef(Py_None);
}

FUNCTION(locate) {
    (void)self;
    return each(args, count, 11, 0);
}

FUNCTION(contrast) {
    (void)self;
    return each(args, count, 14, 1);
}

static PyObject *variants(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    if (avx2_here) return Py_BuildValue("(ss)", "avx2", "baseline");
    return Py_BuildValue("(s)", "baseline");
}

#define METHOD(NAME) {#NAME, (PyCFunction)(void (*)(void))NAME, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {
    METHOD(cosines), METHOD(centre),   METHOD(respond), METHOD(scan),
    METHOD(locate),  METHOD(smooth),   METHOD(contrast), METHOD(search),
    METHOD(search_parts), METHOD(label),
    {"variants", variants, METH_NOARGS, "The builds that this machine can run, fastest first."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernel", NULL, 0, methods,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) {
    avx2_here = engine_avx2.name && has_avx2();
    return PyModule_Create(&definition);
}
