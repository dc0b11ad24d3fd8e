/* The door between Python and the two builds of the kernel.
 *
 * Python hands over lists of buffers (numpy arrays), one per history; every shape and offset is
 * checked here before a pointer is followed, and the GIL is released while the engine works.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "kernel.h"

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

static const Engine *find_engine(const char *name) {
    if (!strcmp(name, "baseline")) return &engine_baseline;
    if (!strcmp(name, "avx2") && avx2_here) return &engine_avx2;
    PyErr_Format(PyExc_ValueError, "this machine has no kernel \"%s\"", name);
    return NULL;
}

/* ── one call: fields that an operation does not use are None ──────────────────────────────── */

enum { COSINES, CENTRES, RESPOND, LOCATE, SMOOTH, CONTRAST, LABEL, OPERATIONS };

typedef struct {
    /* lists, one entry per history */
    PyObject *features, *cosines, *responses, *runs, *numbers, *queries, *lengths, *norms;
    PyObject *weights, *node_states, *node_first, *node_follows, *paths, *levels;
    /* arrays */
    PyObject *centres, *costs, *start, *end, *first, *last, *score, *centre, *scale, *out;
    long long dimension, smoothing, total, stay, rounds;
    double least_scale;
} Call;

#define GIVEN(field) ((field) != Py_None)
#define HOLD(target, expression) \
    if (!((target) = (expression))) return -1

/* The entry of a list that belongs to a history; a list of one serves all. */
static PyObject *entry(PyObject *list, int64_t index, int64_t histories, const char *name) {
    const Py_ssize_t size = PyList_Check(list) ? PyList_Size(list) : -1;
    if (size != 1 && size != histories) return refuse(name, "one array per history is needed");
    return PyList_GetItem(list, size == 1 ? 0 : index);
}
#define ENTRY(field) entry(c->field, index, b->histories, #field)
#define HOLD_ENTRY(target, field, ndim, item, writable)                                       \
    do {                                                                                      \
        PyObject *object = ENTRY(field);                                                      \
        if (!object || !((target) = hold(held, object, ndim, item, writable, #field))) return -1; \
    } while (0)

static int check(int good, const char *name, const char *reason) {
    if (!good) refuse(name, reason);
    return good ? 0 : -1;
}

/* How many frames and queries there are, from whatever tables are given. */
static int fill_tables(const Call *c, int operation, int64_t index, Held *held, const Batch *b,
                       History *h) {
    const Py_buffer *view;
    h->frames = h->queries = -1;
    if (GIVEN(c->queries)) {
        HOLD_ENTRY(view, queries, 2, 4, 0);
        if (check(view->shape[1] == b->dimension, "queries", "wrong dimension")) return -1;
        h->queries = view->shape[0], h->table = view->buf;
    }
    if (GIVEN(c->features)) {
        HOLD_ENTRY(view, features, 2, 0, 0);
        if (check(view->shape[1] == b->dimension, "features", "wrong dimension")) return -1;
        h->frames = view->shape[0], h->features = view->buf, h->half = view->itemsize == 2;
    }
    PyObject *lists[] = {c->cosines, c->responses};
    for (int k = 0; k < 2; k++) {
        if (!GIVEN(lists[k])) continue;
        const char *name = k ? "responses" : "cosines";
        const int out = operation != LOCATE && (h->features || (k && h->cosines));
        PyObject *object = entry(lists[k], index, b->histories, name);
        if (!object || !(view = hold(held, object, 2, k ? 8 : 4, out, name))) return -1;
        if (h->queries < 0) h->queries = view->shape[0];
        if (h->frames < 0) h->frames = view->shape[1];
        if (check(view->shape[0] == h->queries && view->shape[1] == h->frames, name, "wrong shape"))
            return -1;
        if (k) h->responses = view->buf;
        else h->cosines = view->buf;
    }
    const int64_t most = h->frames > 0 ? INT64_MAX / 64 / h->frames : 0;
    return check(h->frames >= 1 && h->frames <= INT32_MAX && h->queries <= most, "frames",
                 "at least one and fewer than 2^31");
}

/* Runs partition the frames; numbers ascend and stay where differences cannot overflow. */
static int fill_frames(const Call *c, int64_t index, Held *held, const Batch *b, History *h) {
    const Py_buffer *view;
    if (GIVEN(c->runs)) {
        HOLD_ENTRY(view, runs, 1, 8, 0);
        h->offsets = view->buf, h->runs = view->shape[0] - 1;
        int good = h->runs >= 1 && h->offsets[0] == 0 && h->offsets[h->runs] == h->frames;
        for (int64_t r = 0; good && r < h->runs; r++) good = h->offsets[r] < h->offsets[r + 1];
        if (check(good, "runs", "must ascend from 0 to the number of frames")) return -1;
    }
    if (GIVEN(c->numbers)) {
        const int64_t most = (int64_t)1 << 54;
        HOLD_ENTRY(view, numbers, 1, 8, 0);
        h->numbers = view->buf;
        int good = view->shape[0] == h->frames && h->numbers[0] >= -most &&
                   h->numbers[h->frames - 1] <= most;
        for (int64_t t = 1; good && t < h->frames; t++) good = h->numbers[t] > h->numbers[t - 1];
        if (check(good, "numbers", "must ascend within 2^54, one per frame")) return -1;
    }
    return 0;
}

/* Lengths, ascending, so that a scan may stop at the first that does not fit; weights. */
static int fill_settings(const Call *c, int64_t index, Held *held, const Batch *b, History *h) {
    const Py_buffer *view;
    if (GIVEN(c->lengths)) {
        HOLD_ENTRY(view, lengths, 1, 8, 0);
        h->lengths = view->buf, h->lengths_count = view->shape[0];
        HOLD_ENTRY(view, norms, 1, 8, 0);
        h->norms = view->buf;
        int good = view->shape[0] == h->lengths_count;
        const int known = index && h->lengths == h[-1].lengths && h->norms == h[-1].norms;
        for (int64_t i = 0; good && !known && i < h->lengths_count; i++)
            good = h->lengths[i] >= (i ? h->lengths[i - 1] + 1 : 1) && h->norms[i] > 0.0;
        if (check(good, "lengths", "must ascend, and norms be positive")) return -1;
    }
    if (GIVEN(c->weights)) {
        HOLD_ENTRY(view, weights, 1, 8, 0);
        h->weights = view->buf, h->reach = view->shape[0] - 1;
        int good = h->reach >= 0 && h->weights[0] > 0.0;
        const int known = index && h->weights == h[-1].weights && h->reach == h[-1].reach;
        for (int64_t i = 0; good && !known && i <= h->reach; i++)
            good = h->weights[i] >= 0.0 && h->weights[i] <= 1.0;
        if (check(good, "weights", "must lie between 0 and 1, the first above 0")) return -1;
    }
    return 0;
}

static int fill_nodes(const Call *c, int64_t index, Held *held, const Batch *b, History *h) {
    const Py_buffer *view;
    Nodes *nodes = &h->nodes;
    HOLD_ENTRY(view, node_states, 1, 8, 0);
    nodes->state = view->buf, nodes->count = view->shape[0];
    int good = nodes->count >= 1 && nodes->count < 1 << 15, starts = 0;
    for (int64_t k = 0; good && k < nodes->count; k++)
        good = nodes->state[k] >= 0 && nodes->state[k] < h->queries;
    HOLD_ENTRY(view, node_first, 1, 1, 0);
    nodes->first = view->buf;
    good &= view->shape[0] == nodes->count;
    for (int64_t k = 0; good && k < nodes->count; k++) starts |= nodes->first[k];
    HOLD_ENTRY(view, node_follows, 2, 1, 0);
    nodes->follows = view->buf;
    good &= view->shape[0] == nodes->count && view->shape[1] == nodes->count && starts;
    HOLD_ENTRY(view, paths, 1, 8, 1);
    h->path = view->buf;
    good &= view->shape[0] == h->frames;
    HOLD_ENTRY(view, levels, 1, 8, 1);
    h->levels = view->buf;
    good &= view->shape[0] == h->queries;
    return check(good && b->stay <= h->frames && h->queries >= 2, "nodes", "do not fit");
}

/* What each operation needs of a history before the engine may follow a pointer. */
static int complete(int operation, const History *h) {
    const int sources = !!h->features + !!h->cosines + !!h->responses;
    switch (operation) {
    case COSINES: return h->features && h->table && h->cosines;
    case CENTRES: return h->features && !h->cosines && !h->responses;
    case RESPOND: return h->cosines && h->responses && !h->features && h->offsets;
    case LOCATE:
        return sources == 1 && (!h->features || h->table) && h->offsets && h->lengths;
    default:
        if (!h->offsets || (h->features && !h->table)) return 0;
        if (!h->features && !h->cosines) return operation != SMOOTH && h->responses;
        return h->weights && h->numbers && (operation != SMOOTH || h->responses);
    }
}

static int fill_history(const Call *c, int operation, int64_t index, Held *held, Batch *b,
                        History *h) {
    if (fill_tables(c, operation, index, held, b, h) || fill_frames(c, index, held, b, h) ||
        fill_settings(c, index, held, b, h))
        return -1;
    if (operation == CENTRES) h->queries = 0;
    if (operation == LABEL && fill_nodes(c, index, held, b, h)) return -1;
    return check(h->queries >= 0 && complete(operation, h), "arrays", "wrong ones for the operation");
}

/* The arrays that all histories share, and where answers go. */
static int fill_outputs(const Call *c, int operation, Held *held, const Batch *b, History *all,
                        int64_t rows, Answers *a, float **out) {
    if (GIVEN(c->centres)) {
        const Py_buffer *view = hold(held, c->centres, 2, 4, 0, "centres");
        if (!view || check(view->shape[0] == b->histories && view->shape[1] == b->dimension,
                           "centres", "wrong shape"))
            return -1;
        for (int64_t i = 0; i < b->histories; i++)
            all[i].centre = (const float *)view->buf + i * b->dimension;
    }
    if (operation == LABEL) {
        const double *costs;
        HOLD(costs, hold_flat(held, c->costs, 8, b->histories, 0, "costs", NULL));
        for (int64_t i = 0; i < b->histories; i++) all[i].nodes.cost = costs[i];
        for (int64_t i = 0; i < b->histories; i++)
            if (check(costs[i] >= 0.0 && costs[i] < 1e300, "costs", "must not be negative")) return -1;
    }
    if (operation == CENTRES) {
        const Py_buffer *view = hold(held, c->out, 2, 4, 1, "out");
        if (!view || check(view->shape[0] == b->histories && view->shape[1] == b->dimension, "out",
                           "wrong shape"))
            return -1;
        *out = view->buf;
    }
    if (operation == COSINES || operation == CENTRES) return 0;
    if (GIVEN(c->centre) || operation == RESPOND || operation == LOCATE || operation == SMOOTH) {
        HOLD(a->centre, hold_flat(held, c->centre, 8, rows, 1, "centre", NULL));
        HOLD(a->scale, hold_flat(held, c->scale, 8, rows, 1, "scale", NULL));
    }
    if (operation == RESPOND || operation == SMOOTH || operation == LABEL) return 0;
    HOLD(a->start, hold_flat(held, c->start, 8, rows, 1, "start", NULL));
    HOLD(a->end, hold_flat(held, c->end, 8, rows, 1, "end", NULL));
    HOLD(a->score, hold_flat(held, c->score, 8, rows, 1, "score", NULL));
    if (GIVEN(c->first)) {
        if (check(all[0].numbers != NULL, "first", "needs the numbers of frames")) return -1;
        HOLD(a->first, hold_flat(held, c->first, 8, rows, 1, "first", NULL));
        HOLD(a->last, hold_flat(held, c->last, 8, rows, 1, "last", NULL));
    }
    return 0;
}

/* Everything that is checked before the engine may follow a pointer. */
static int fill(const Call *c, int operation, Held *held, Batch *b, History *all, Answers *a,
                float **out) {
    *b = (Batch){.histories = b->histories, .dimension = c->dimension, .smoothing = c->smoothing,
                 .total = c->total, .stay = c->stay, .rounds = c->rounds,
                 .least_scale = c->least_scale, .all = all};
    if (check(operation >= COSINES && operation < OPERATIONS && b->dimension >= 1 &&
                  b->dimension < 1 << 28 && b->smoothing >= 1 && b->smoothing % 2 == 1 &&
                  b->stay >= 1 && b->rounds >= 1 && b->rounds <= 1000 && b->total >= 0 && b->least_scale > 0.0,
              "settings", "out of range"))
        return -1;
    int64_t rows = 0;
    for (int64_t i = 0; i < b->histories; i++) {
        if (fill_history(c, operation, i, held, b, all + i)) return -1;
        if (check(!b->total || b->total >= all[i].frames, "total", "fewer than are given")) return -1;
        all[i].row = rows, rows += all[i].queries;
    }
    return fill_outputs(c, operation, held, b, all, rows, a, out);
}

static Status work(const Engine *engine, int operation, const Batch *b, Answers a, float *out) {
    switch (operation) {
    case COSINES: return engine->cosines(b);
    case CENTRES: return engine->centres(b, out);
    case RESPOND: return engine->respond(b, a);
    case LOCATE: return engine->locate(b, a);
    case SMOOTH: return engine->smooth(b, a);
    case CONTRAST: return engine->contrast(b, a);
    default: return engine->label(b, a);
    }
}

static PyObject *run(PyObject *self, PyObject *args) {
    (void)self;
    Call c;
    const char *name;
    int operation;
    long long histories;
    if (!PyArg_ParseTuple(args, "siL(LLLLLd)(OOOOOOOOOOOOOO)(OOOOOOOOOO)", &name, &operation,
                          &histories, &c.dimension, &c.smoothing, &c.total, &c.stay, &c.rounds,
                          &c.least_scale, &c.features, &c.cosines, &c.responses, &c.runs,
                          &c.numbers, &c.queries, &c.lengths, &c.norms, &c.weights,
                          &c.node_states, &c.node_first, &c.node_follows, &c.paths, &c.levels,
                          &c.centres,
                          &c.costs, &c.start, &c.end, &c.first, &c.last, &c.score, &c.centre,
                          &c.scale, &c.out))
        return NULL;
    const Engine *engine = find_engine(name);
    if (!engine) return NULL;
    if (histories < 1 || histories > INT32_MAX) return refuse("histories", "at least one");
    Batch b = {.histories = histories};
    Answers a = {0};
    float *out = NULL;
    Status status = {OK, 0, 0};
    Held held = {NULL, 0, 16 * histories + 16};
    held.views = malloc((size_t)held.room * sizeof(Py_buffer));
    History *all = calloc((size_t)histories, sizeof(History));
    if (!held.views || !all) {
        free(held.views);
        free(all);
        return PyErr_NoMemory();
    }
    const int failed = fill(&c, operation, &held, &b, all, &a, &out);
    if (!failed) {
        Py_BEGIN_ALLOW_THREADS
        status = work(engine, operation, &b, a, out);
        Py_END_ALLOW_THREADS
    }
    free(all);
    release(&held);
    if (failed) return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    if (status.code == NO_MEMORY) return PyErr_NoMemory();
    return Py_BuildValue("iLL", status.code, (long long)status.history, (long long)status.row);
}

static PyObject *variants(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    if (avx2_here) return Py_BuildValue("(ss)", "avx2", "baseline");
    return Py_BuildValue("(s)", "baseline");
}

static PyMethodDef methods[] = {
    {"run", run, METH_VARARGS, "One operation on a ragged batch; see dejacue.method.kernel."},
    {"variants", variants, METH_NOARGS, "The builds that this machine can run, fastest first."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernel", NULL, 0, methods,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) {
    avx2_here = engine_avx2.name && has_avx2();
    return PyModule_Create(&definition);
}
