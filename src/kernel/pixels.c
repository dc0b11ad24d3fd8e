/* From a frame and a mask to the square picture that an encoder takes, in one call without the GIL.
 *
 * The tight box of the mask, padded; pixels outside the mask become `fill`; then Pillow's bilinear,
 * antialiased filter, first along rows and then along columns, in its fixed-point arithmetic: the
 * same bytes as dejacue.sources.crops computes with numpy and Pillow. Both passes combine whole
 * rows, which vectorises; between them pixels are transposed. What the padding adds is constant,
 * so only the tight box is filtered.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BITS 22 /* of a weight, as in Pillow */

#if defined(__GNUC__) && defined(__x86_64__) && defined(__linux__) && !defined(__clang__)
#define FAST __attribute__((target_clones("avx2", "default")))
#else
#define FAST
#endif

typedef struct {
    int *first, *count; /* of the inputs that each output sees */
    int32_t *weights;   /* room per output */
    int room;
} Filter;

static void filter_free(Filter *f) {
    free(f->first);
    free(f->count);
    free(f->weights);
}

/* Weights with which `size` outputs see `length` inputs: a triangle as wide as the shrinking. */
static int filter_make(Filter *f, int length, int size) {
    const double scale = (double)length / size, wide = scale < 1.0 ? 1.0 : scale;
    f->room = (int)ceil(wide) * 2 + 1;
    f->first = malloc(sizeof(int) * (size_t)size);
    f->count = malloc(sizeof(int) * (size_t)size);
    f->weights = malloc(sizeof(int32_t) * (size_t)size * (size_t)f->room);
    double *real = malloc(sizeof(double) * (size_t)f->room);
    if (!f->first || !f->count || !f->weights || !real) {
        free(real);
        return -1;
    }
    for (int i = 0; i < size; i++) {
        const double centre = (i + 0.5) * scale;
        int low = (int)(centre - wide + 0.5), high = (int)(centre + wide + 0.5);
        if (low < 0) low = 0;
        if (high > length) high = length;
        double total = 0.0;
        for (int k = 0; k < high - low; k++) {
            const double at = fabs((k + low - centre + 0.5) * (1.0 / wide));
            real[k] = at < 1.0 ? 1.0 - at : 0.0;
            total += real[k];
        }
        for (int k = 0; k < high - low; k++) {
            const double own = total != 0.0 ? real[k] / total : real[k];
            f->weights[(size_t)i * (size_t)f->room + (size_t)k] =
                (int32_t)(own < 0 ? own * (1 << BITS) - 0.5 : own * (1 << BITS) + 0.5);
        }
        f->first[i] = low;
        f->count[i] = high - low;
    }
    free(real);
    return 0;
}

/* sums[j] += weight · row[j] */
FAST static void add_row(int32_t *restrict sums, const uint8_t *restrict row, int32_t weight,
                         int64_t n) {
    for (int64_t j = 0; j < n; j++) sums[j] += weight * row[j];
}

FAST static void finish(uint8_t *restrict out, const int32_t *restrict sums, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        const int32_t value = sums[j] >> BITS;
        out[j] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
}

/* Every output row is a weighted sum of the input rows [from, to); others are `fill` throughout. */
static void combine(uint8_t *out, int64_t out_step, const uint8_t *rows, int from, int to,
                    int64_t n, const Filter *f, int size, uint8_t fill, int32_t *sums) {
    for (int i = 0; i < size; i++) {
        const int32_t *weights = f->weights + (size_t)i * (size_t)f->room;
        int32_t outside = 1 << (BITS - 1); /* rounds to the nearest */
        int inside = 0;
        for (int k = 0; k < f->count[i]; k++) {
            const int at = f->first[i] + k;
            if (at < from || at >= to) outside += weights[k] * fill;
            else inside = 1;
        }
        uint8_t *own = out + (int64_t)i * out_step;
        for (int64_t j = 0; j < n; j++) sums[j] = outside;
        if (inside)
            for (int k = 0; k < f->count[i]; k++) {
                const int at = f->first[i] + k;
                if (at >= from && at < to)
                    add_row(sums, rows + (int64_t)(at - from) * n, weights[k], n);
            }
        finish(own, sums, n);
    }
}

/* (rows, columns) pixels of three bytes → (columns, rows) */
static void transpose(uint8_t *out, const uint8_t *in, int rows, int columns) {
    for (int r0 = 0; r0 < rows; r0 += 16)
        for (int c0 = 0; c0 < columns; c0 += 16) {
            const int r1 = r0 + 16 < rows ? r0 + 16 : rows, c1 = c0 + 16 < columns ? c0 + 16 : columns;
            for (int c = c0; c < c1; c++)
                for (int r = r0; r < r1; r++) {
                    const uint8_t *from = in + ((int64_t)r * columns + c) * 3;
                    uint8_t *to = out + ((int64_t)c * rows + r) * 3;
                    to[0] = from[0], to[1] = from[1], to[2] = from[2];
                }
        }
}

typedef struct {
    int y0, y1, x0, x1;
} Box;

/* Whether the mask has a pixel, and the tight box of those it has. */
static int tight(const uint8_t *mask, int height, int width, Box *box) {
    int y0 = 0, y1 = height;
    while (y0 < height && !memchr(mask + (int64_t)y0 * width, 1, (size_t)width)) y0++;
    if (y0 == height) return 0;
    while (!memchr(mask + (int64_t)(y1 - 1) * width, 1, (size_t)width)) y1--;
    int x0 = width, x1 = 0;
    for (int y = y0; y < y1; y++) {
        const uint8_t *row = mask + (int64_t)y * width;
        const uint8_t *found = memchr(row, 1, (size_t)x0);
        if (found) x0 = (int)(found - row);
        int end = width;
        while (end > x1 && !row[end - 1]) end--;
        if (end > x1) x1 = end;
    }
    *box = (Box){y0, y1, x0, x1};
    return 1;
}

static int make(const uint8_t *image, const uint8_t *mask, int height, int width, Box t, Box padded,
                int fill, uint8_t *out, int size) {
    (void)height;
    const int th = t.y1 - t.y0, tw = t.x1 - t.x0;
    const int ph = padded.y1 - padded.y0, pw = padded.x1 - padded.x0;
    const int64_t most = (int64_t)(th > size ? th : size) * 3;
    Filter across = {0}, down = {0};
    uint8_t *kept = malloc((size_t)th * (size_t)tw * 3);
    uint8_t *turned = malloc((size_t)th * (size_t)tw * 3);
    uint8_t *narrow = malloc((size_t)size * (size_t)th * 3);
    uint8_t *back = malloc((size_t)size * (size_t)th * 3);
    int32_t *sums = malloc(sizeof(int32_t) * (size_t)most);
    int failed = !kept || !turned || !narrow || !back || !sums ||
                 filter_make(&across, pw, size) || filter_make(&down, ph, size);
    if (!failed) {
        for (int y = 0; y < th; y++) {
            const uint8_t *from = image + ((int64_t)(t.y0 + y) * width + t.x0) * 3;
            const uint8_t *seen = mask + (int64_t)(t.y0 + y) * width + t.x0;
            uint8_t *to = kept + (int64_t)y * tw * 3;
            for (int x = 0; x < tw; x++) {
                const uint8_t keep = (uint8_t)-seen[x];
                for (int c = 0; c < 3; c++)
                    to[3 * x + c] = (uint8_t)(fill ^ ((from[3 * x + c] ^ fill) & keep));
            }
        }
        transpose(turned, kept, th, tw);
        combine(narrow, (int64_t)th * 3, turned, t.x0 - padded.x0, t.x1 - padded.x0, (int64_t)th * 3,
                &across, size, (uint8_t)fill, sums);
        transpose(back, narrow, size, th);
        combine(out, (int64_t)size * 3, back, t.y0 - padded.y0, t.y1 - padded.y0, (int64_t)size * 3,
                &down, size, (uint8_t)fill, sums);
    }
    filter_free(&across);
    filter_free(&down);
    free(kept);
    free(turned);
    free(narrow);
    free(back);
    free(sums);
    return failed ? -1 : 0;
}

static PyObject *picture(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer image, mask, out;
    int height, width, minimum, fill, size;
    double padding;
    if (!PyArg_ParseTuple(args, "y*y*w*iidiii", &image, &mask, &out, &height, &width, &padding,
                          &minimum, &fill, &size))
        return NULL;
    PyObject *answer = NULL;
    const int64_t pixels = (int64_t)height * width;
    if (height < 1 || width < 1 || size < 1 || size > 8192 || fill < 0 || fill > 255 ||
        minimum < 0 || !(padding >= 0.0 && padding < 1e6) || image.len != pixels * 3 ||
        mask.len != pixels || out.len != (int64_t)size * size * 3) {
        PyErr_SetString(PyExc_ValueError, "the buffers do not fit the sizes");
    } else {
        int status = 0;
        Py_BEGIN_ALLOW_THREADS
        Box t;
        if (!tight(mask.buf, height, width, &t)) {
            status = 1;
        } else {
            const int longer = t.y1 - t.y0 > t.x1 - t.x0 ? t.y1 - t.y0 : t.x1 - t.x0;
            const double wanted = nearbyint(padding * longer); /* half to even, as Python rounds */
            const int margin = wanted > minimum ? (wanted < 1e9 ? (int)wanted : 1000000000) : minimum;
            Box p = {t.y0 - margin, t.y1 + margin, t.x0 - margin, t.x1 + margin};
            if (p.y0 < 0) p.y0 = 0;
            if (p.x0 < 0) p.x0 = 0;
            if (p.y1 > height) p.y1 = height;
            if (p.x1 > width) p.x1 = width;
            status = make(image.buf, mask.buf, height, width, t, p, fill, out.buf, size);
        }
        Py_END_ALLOW_THREADS
        if (status < 0) PyErr_NoMemory();
        else answer = PyBool_FromLong(status == 0);
    }
    PyBuffer_Release(&image);
    PyBuffer_Release(&mask);
    PyBuffer_Release(&out);
    return answer;
}

static PyMethodDef methods[] = {
    {"picture", picture, METH_VARARGS, "Frame and mask to picture; see dejacue.sources.crops."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_pixels", NULL, 0, methods,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__pixels(void) { return PyModule_Create(&definition); }
