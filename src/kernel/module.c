/* The door between Python and the two builds of the kernel.
 *
 * Python hands over buffers (numpy arrays); every length is checked here against the offsets
 * before a pointer is followed, and the GIL is released while the engine works.
 */
#include <Python.h>
#include <stdlib.h>
#include <string.h>

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

/* ── buffers that are held for the length of one call ──────────────────────────────────────── */

typedef struct {
    Py_buffer *views;
    int64_t used, room;
} Held;

static void release(Held *held) {
    for (int64_t i = 0; i < held->used; i++) PyBuffer_Release(held->views + i);
    free(held->views);
}

/* The memory of one contiguous array with the given item size and (if ≥ 0) number of items. */
static void *hold(Held *held, PyObject *object, int64_t item, int64_t items, int writable,
                  const char *name, int64_t *found) {
    if (held->used == held->room) {
        PyErr_SetString(PyExc_SystemError, "kernel: too many buffers");
        return NULL;
    }
    Py_buffer *view = held->views + held->used;
    if (PyObject_GetBuffer(object, view, PyBUF_ND | (writable ? PyBUF_WRITABLE : 0))) return NULL;
    held->used++;
    if (item && view->itemsize != item) {
        PyErr_Format(PyExc_ValueError, "%s: items of %zd bytes, not %lld", name, view->itemsize,
                     (long long)item);
        return NULL;
    }
    const int64_t count = view->len / view->itemsize;
    if (items >= 0 && count != items) {
        PyErr_Format(PyExc_ValueError, "%s: %lld items, not %lld", name, (long long)count,
                     (long long)items);
        return NULL;
    }
    if (found) *found = item ? count : view->itemsize;
    return view->buf;
}

/* Offsets: int64, each at least `least` above the one before; `items` of them (any if < 0). */
static const int64_t *hold_offsets(Held *held, PyObject *object, int64_t items, int64_t least,
                                   const char *name, int64_t *found) {
    int64_t count;
    const int64_t *values = hold(held, object, 8, items, 0, name, &count);
    if (!values) return NULL;
    for (int64_t i = 0; i < count; i++)
        if (values[i] < 0 || (i && values[i] - values[i - 1] < least)) {
            PyErr_Format(PyExc_ValueError, "%s: offsets must ascend", name);
            return NULL;
        }
    if (count < 1) {
        PyErr_Format(PyExc_ValueError, "%s: empty", name);
        return NULL;
    }
    if (found) *found = count;
    return values;
}

/* One table per history; sets widths (item sizes) when `item` is 0. */
static void **hold_tables(Held *held, PyObject *list, const Batch *b, const int64_t *rows_per_frame,
                          int64_t columns, int64_t item, int writable, int *halves,
                          const char *name) {
    if (!PyList_Check(list) || PyList_Size(list) != b->histories) {
        PyErr_Format(PyExc_ValueError, "%s: one array per history is needed", name);
        return NULL;
    }
    void **tables = malloc((size_t)b->histories * sizeof(void *));
    if (!tables) return (void **)PyErr_NoMemory();
    for (int64_t h = 0; h < b->histories; h++) {
        const int64_t n = b->frame_offsets[h + 1] - b->frame_offsets[h];
        const int64_t per = rows_per_frame ? rows_per_frame[h + 1] - rows_per_frame[h] : columns;
        int64_t size;
        if (per > 0 && n > INT64_MAX / 8 / per) {
            PyErr_Format(PyExc_ValueError, "%s: too large", name);
            free(tables);
            return NULL;
        }
        tables[h] = hold(held, PyList_GetItem(list, h), item, n * per, writable, name, &size);
        if (tables[h] && !item) {
            if (size == 2 || size == 4) halves[h] = size == 2;
            else {
                PyErr_Format(PyExc_ValueError, "%s: float16 or float32 only", name);
                tables[h] = NULL;
            }
        }
        if (!tables[h]) {
            free(tables);
            return NULL;
        }
    }
    return tables;
}

/* ── one call: fields that an operation does not use are None ──────────────────────────────── */

enum { COSINES, CENTRES, RESPOND, LOCATE };

typedef struct {
    PyObject *features, *cosines, *responses, *frames, *runs, *history_runs, *first, *queries_at;
    PyObject *queries, *centres, *lengths, *norms, *length_offsets, *schedules, *start, *end, *score;
    PyObject *centre, *scale, *out;
    long long dimension, smoothing;
} Call;

#define GIVEN(field) ((field) != Py_None)
#define HOLD(target, expression) \
    if (!((target) = (expression))) return -1

/* How many histories, frames, runs and queries there are. */
static int fill_shape(const Call *c, Held *held, Batch *b) {
    int64_t count, longest = 0;
    b->dimension = c->dimension, b->smoothing = c->smoothing;
    if (b->dimension < 1 || b->smoothing < 1 || b->smoothing % 2 == 0) {
        PyErr_SetString(PyExc_ValueError, "dimension and an odd smoothing width must be positive");
        return -1;
    }
    HOLD(b->frame_offsets, hold_offsets(held, c->frames, -1, 1, "frames", &count));
    b->histories = count - 1;
    for (int64_t h = 0; h < b->histories; h++) {
        const int64_t n = b->frame_offsets[h + 1] - b->frame_offsets[h];
        if (n > longest) longest = n;
    }
    if (b->histories < 1 || longest > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "frames: at least one history, each below 2^31 frames");
        return -1;
    }
    HOLD(b->query_offsets, hold_offsets(held, c->queries_at, count, 0, "queries_at", NULL));
    if (!GIVEN(c->history_runs)) return 0;
    int64_t cuts;
    HOLD(b->history_runs, hold_offsets(held, c->history_runs, count, 1, "history_runs", NULL));
    HOLD(b->run_offsets, hold_offsets(held, c->runs, -1, 1, "runs", &cuts));
    for (int64_t h = 0; h < count; h++)
        if (b->history_runs[h] >= cuts || b->run_offsets[b->history_runs[h]] != b->frame_offsets[h]) {
            PyErr_SetString(PyExc_ValueError, "runs do not partition the frames");
            return -1;
        }
    return 0;
}

/* Features, cosines, responses, queries, centres: whatever is given. */
static int fill_tables(const Call *c, int operation, Held *held, Batch *b, int **halves) {
    if (GIVEN(c->features)) {
        HOLD(*halves, malloc((size_t)b->histories * sizeof(int)));
        b->halves = *halves;
        HOLD(b->features, (const void *const *)hold_tables(held, c->features, b, NULL, b->dimension,
                                                           0, 0, *halves, "features"));
    }
    if (GIVEN(c->cosines))
        HOLD(b->cosines, (float *const *)hold_tables(held, c->cosines, b, b->query_offsets, 0, 4,
                                                     operation == COSINES, NULL, "cosines"));
    if (GIVEN(c->responses))
        HOLD(b->responses, (double *const *)hold_tables(held, c->responses, b, b->query_offsets, 0,
                                                        8, operation == RESPOND, NULL, "responses"));
    if (GIVEN(c->queries)) {
        int64_t items;
        HOLD(b->queries, hold(held, c->queries, 4, -1, 0, "queries", &items));
        HOLD(b->query_first, hold(held, c->first, 8, b->histories, 0, "first", NULL));
        for (int64_t h = 0; h < b->histories; h++) {
            const int64_t q = b->query_offsets[h + 1] - b->query_offsets[h];
            if (b->query_first[h] < 0 || b->query_first[h] > items / b->dimension - q) {
                PyErr_SetString(PyExc_ValueError, "queries: row out of range");
                return -1;
            }
        }
    }
    if (GIVEN(c->centres))
        HOLD(b->centres, hold(held, c->centres, 4, b->histories * b->dimension, 0, "centres", NULL));
    return 0;
}

/* The lengths to try; ascending, so that a scan may stop at the first that does not fit. */
static int fill_schedules(const Call *c, Held *held, Batch *b) {
    int64_t kinds;
    HOLD(b->length_offsets, hold_offsets(held, c->length_offsets, -1, 0, "length_offsets", &kinds));
    const int64_t lengths = b->length_offsets[kinds - 1];
    HOLD(b->schedules, hold(held, c->schedules, 8, b->histories, 0, "schedules", NULL));
    HOLD(b->lengths, hold(held, c->lengths, 8, lengths, 0, "lengths", NULL));
    HOLD(b->norms, hold(held, c->norms, 8, lengths, 0, "norms", NULL));
    for (int64_t h = 0; h < b->histories; h++)
        if (b->schedules[h] < 0 || b->schedules[h] >= kinds - 1) {
            PyErr_SetString(PyExc_ValueError, "schedules: index out of range");
            return -1;
        }
    for (int64_t k = 0; k < kinds - 1; k++)
        for (int64_t i = b->length_offsets[k]; i < b->length_offsets[k + 1]; i++) {
            const int64_t least = i > b->length_offsets[k] ? b->lengths[i - 1] + 1 : 1;
            if (b->lengths[i] < least || !(b->norms[i] > 0.0)) {
                PyErr_SetString(PyExc_ValueError, "lengths must ascend, norms be positive");
                return -1;
            }
        }
    return 0;
}

/* Everything that is checked before the engine may follow a pointer. */
static int fill(const Call *c, int operation, Held *held, Batch *b, Answers *a, float **out,
                int **halves) {
    if (fill_shape(c, held, b) || fill_tables(c, operation, held, b, halves)) return -1;
    const int64_t rows = b->query_offsets[b->histories];
    const int windows = operation == LOCATE, responses = windows || operation == RESPOND;
    /* exactly one thing to start from, and queries with features */
    const int sources = !!b->features + !!b->cosines + !!b->responses == 1 &&
                        (!b->features || b->queries);
    if (operation < COSINES || operation > LOCATE || (responses && !b->history_runs) ||
        (operation == COSINES && !(b->features && b->queries && b->cosines)) ||
        (operation == CENTRES && !b->features) || (windows && !sources) ||
        (operation == RESPOND && !(b->cosines && b->responses))) {
        PyErr_SetString(PyExc_ValueError, "unknown operation, or the wrong arrays for it");
        return -1;
    }
    if (operation == CENTRES)
        HOLD(*out, hold(held, c->out, 4, b->histories * b->dimension, 1, "out", NULL));
    if (responses) {
        HOLD(a->centre, hold(held, c->centre, 8, rows, 1, "centre", NULL));
        HOLD(a->scale, hold(held, c->scale, 8, rows, 1, "scale", NULL));
    }
    if (windows) {
        if (fill_schedules(c, held, b)) return -1;
        HOLD(a->start, hold(held, c->start, 8, rows, 1, "start", NULL));
        HOLD(a->end, hold(held, c->end, 8, rows, 1, "end", NULL));
        HOLD(a->score, hold(held, c->score, 8, rows, 1, "score", NULL));
    }
    return 0;
}

static PyObject *run(PyObject *self, PyObject *args) {
    (void)self;
    Call c;
    const char *name;
    int operation;
    if (!PyArg_ParseTuple(args, "siLLOOOOOOOOOOOOOOOOOOOO", &name, &operation, &c.dimension,
                          &c.smoothing, &c.features, &c.cosines, &c.responses, &c.frames, &c.runs,
                          &c.history_runs, &c.first, &c.queries_at, &c.queries, &c.centres,
                          &c.lengths, &c.norms, &c.length_offsets, &c.schedules, &c.start,
                          &c.end, &c.score, &c.centre, &c.scale, &c.out))
        return NULL;
    const Engine *engine = find_engine(name);
    if (!engine) return NULL;

    Batch b = {0};
    Answers a = {0};
    float *out = NULL;
    int *halves = NULL;
    Status status = {OK, 0, 0};
    Held held = {NULL, 0, 24};
    PyObject *lists[] = {c.features, c.cosines, c.responses};
    for (int i = 0; i < 3; i++)
        if (PyList_Check(lists[i])) held.room += PyList_Size(lists[i]);
    held.views = calloc((size_t)held.room, sizeof(Py_buffer));
    if (!held.views) return PyErr_NoMemory();

    const int failed = fill(&c, operation, &held, &b, &a, &out, &halves);
    if (!failed) {
        Py_BEGIN_ALLOW_THREADS
        switch (operation) {
        case COSINES: status = engine->cosines(&b); break;
        case CENTRES: status = engine->centres(&b, out); break;
        case RESPOND: status = engine->respond(&b, a); break;
        default: status = engine->locate(&b, a);
        }
        Py_END_ALLOW_THREADS
    }
    free((void *)b.features);
    free((void *)b.cosines);
    free((void *)b.responses);
    free(halves);
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
