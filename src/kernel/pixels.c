/* From a frame and a mask to the square picture that an encoder takes, in one call without the GIL.
 *
 * The tight box of the mask, padded; pixels outside the mask become `fill`; then Pillow's bilinear,
 * antialiased filter, first along rows and then along columns, in its fixed-point arithmetic: the
 * same bytes as dejacue.video.crops computes with numpy and Pillow.
 *
 *   a band of 32 rows ──▶ turned, 96 bytes a column ──▶ masked ──▶ filtered ──▶ turned back
 *   all bands ──▶ filtered
 *
 * Turned, both passes are weighted sums of lines of bytes, which vectorise. What lies outside the
 * mask's columns of a band is constant and is not computed.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define BITS 22         /* of a weight, as in Pillow */
#define TILE 16         /* rows and columns that are turned together */
#define BAND 32         /* rows that are filtered together */
#define LINE (3 * BAND) /* bytes of a column of pixels in a band */
#define LARGEST 8192    /* side: rounding so few weights moves no constant and no sum above 255 */

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define FAST __attribute__((target_clones("avx2", "default")))
#else
#define FAST
#endif

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

typedef struct {
    int y0, y1, x0, x1;
} Box;

/* Marks which bytes occur. Masks are flat: where the least and the greatest are neighbours, there
 * are no others, and a word like the one before it tells nothing new. */
FAST static void occurring(const uint8_t *data, int64_t length, uint8_t *seen) {
    uint8_t least = 255, greatest = 0;
    for (int64_t i = 0; i < length; i++) {
        least = data[i] < least ? data[i] : least;
        greatest = data[i] > greatest ? data[i] : greatest;
    }
    if (greatest - least < 2) {
        seen[least] = seen[greatest] = 1;
        return;
    }
    uint64_t last, word;
    int64_t i = 0;
    seen[data[0]] = 1;
    memset(&last, data[0], sizeof last);
    for (; i + 8 <= length; i += 8) {
        memcpy(&word, data + i, 8);
        if (word == last) continue;
        last = word;
        for (int k = 0; k < 8; k++) seen[data[i + k]] = 1;
    }
    for (; i < length; i++) seen[data[i]] = 1;
}

INLINE uint64_t word(const uint8_t *p) {
    uint64_t eight;
    memcpy(&eight, p, 8);
    return eight;
}

INLINE int blank(const uint8_t *p) { /* 32 bytes */
    return !((word(p) | word(p + 8)) | (word(p + 16) | word(p + 24)));
}

/* Widens [*low, *high) so that it holds every byte of row[0, n) that is not 0. */
static void widen(const uint8_t *row, int n, int *low, int *high) {
    const int end = *low < n ? *low : n;
    int x = 0;
    while (x + 32 <= end && blank(row + x)) x += 32;
    while (x + 8 <= end && !word(row + x)) x += 8;
    while (x < end && !row[x]) x++;
    if (x < end) *low = x;
    while (n - 32 >= *high && blank(row + n - 32)) n -= 32;
    while (n - 8 >= *high && !word(row + n - 8)) n -= 8;
    while (n > *high && !row[n - 1]) n--;
    if (n > *high) *high = n;
}

static uint8_t paeth(int a, int b, int c) {
    const int pa = abs(b - c), pb = abs(a - c), pc = abs(a + b - 2 * c);
    return (uint8_t)(pa <= pb && pa <= pc ? a : pb <= pc ? b : c);
}

/* Undoes the filter of a row of a PNG, whose first byte says which, in the place of the row above. */
static int unfilter(uint8_t *restrict line, const uint8_t *restrict row, int64_t n) {
    const int kind = *row++;
    uint8_t left = 0, corner = 0;
    switch (kind) {
    case 0: memcpy(line, row, (size_t)n); return 0;
    case 1:
        for (int64_t k = 0; k < n;) {
            const int same = k + 8 <= n && !word(row + k); /* eight pixels as the one before */
            if (same) memset(line + k, left, 8), k += 8;
            else left = line[k] = (uint8_t)(row[k] + left), k++;
        }
        return 0;
    case 2:
        for (int64_t k = 0; k < n; k++) line[k] = (uint8_t)(row[k] + line[k]);
        return 0;
    case 3:
        for (int64_t k = 0; k < n; k++) left = line[k] = (uint8_t)(row[k] + (left + line[k]) / 2);
        return 0;
    case 4:
        for (int64_t k = 0; k < n; k++) {
            const uint8_t above = line[k];
            left = line[k] = (uint8_t)(row[k] + paeth(left, above, corner));
            corner = above;
        }
        return 0;
    default: return -1;
    }
}

/* What is known of the numbers of a PNG: which occur, and the tight box of those above 0. */
typedef struct {
    uint8_t seen[256];
    Box box;
} Flat;

/* (height, width) numbers of the inflated rows of a PNG with 1, 2, 4 or 8 bits a pixel. */
static int unpack(uint8_t *out, const uint8_t *rows, int height, int width, int depth, Flat *flat) {
    const int64_t step = ((int64_t)width * depth + 7) / 8;
    uint8_t *line = calloc((size_t)step, 1);
    int failed = !line;
    for (int y = 0; y < height && !failed; y++, rows += step + 1, out += width) {
        failed = unfilter(line, rows, step);
        if (depth == 8) memcpy(out, line, (size_t)width);
        else
            for (int x = 0, bit = 0; x < width; x++, bit += depth)
                out[x] = (uint8_t)(line[bit >> 3] >> (8 - depth - (bit & 7)) & ((1 << depth) - 1));
        int low = width, high = 0; /* what lies outside is 0 */
        widen(out, width, &low, &high);
        if (high - low < width) flat->seen[0] = 1;
        if (low >= high) continue;
        const Box b = flat->box.y1 ? flat->box : (Box){y, 0, width, 0};
        flat->box = (Box){b.y0, y + 1, low < b.x0 ? low : b.x0, high > b.x1 ? high : b.x1};
        occurring(out + low, high - low, flat->seen);
    }
    free(line);
    return failed;
}

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

/* out[j] = Σ weights[k] · lines[k · step + j]; how many weights, the compiler knows. */
INLINE void few(uint8_t *restrict out, const uint8_t *restrict lines, int64_t step,
                const int32_t *restrict weights, const int count, int32_t start, int n) {
    for (int j = 0; j < n; j++) {
        int32_t sum = start;
        for (int k = 0; k < count; k++) sum += weights[k] * lines[k * step + j];
        out[j] = (uint8_t)(sum >> BITS);
    }
}

/* The same for any number, four lines at a time. */
INLINE void many(uint8_t *restrict out, const uint8_t *restrict lines, int64_t step,
                 const int32_t *restrict weights, int count, int32_t start, int n) {
    int32_t sums[LINE];
    for (int done = 0; done < n; done += LINE) {
        const int m = n - done < LINE ? n - done : LINE;
        const uint8_t *restrict own = lines + done;
        for (int j = 0; j < m; j++) sums[j] = start;
        int k = 0;
        for (; k + 4 <= count; k += 4, own += 4 * step)
            for (int j = 0; j < m; j++)
                sums[j] += weights[k] * own[j] + weights[k + 1] * own[step + j] +
                           weights[k + 2] * own[2 * step + j] + weights[k + 3] * own[3 * step + j];
        for (; k < count; k++, own += step)
            for (int j = 0; j < m; j++) sums[j] += weights[k] * own[j];
        for (int j = 0; j < m; j++) out[done + j] = (uint8_t)(sums[j] >> BITS);
    }
}

INLINE void weigh(uint8_t *out, const uint8_t *lines, int64_t step, const int32_t *weights,
                  int count, int32_t start, int n) {
    switch (count) {
    case 1: few(out, lines, step, weights, 1, start, n); break;
    case 2: few(out, lines, step, weights, 2, start, n); break;
    case 3: few(out, lines, step, weights, 3, start, n); break;
    case 4: few(out, lines, step, weights, 4, start, n); break;
    case 5: few(out, lines, step, weights, 5, start, n); break;
    case 6: few(out, lines, step, weights, 6, start, n); break;
    case 7: few(out, lines, step, weights, 7, start, n); break;
    default: many(out, lines, step, weights, count, start, n);
    }
}

/* Of the inputs that an output sees, those in [from, to): the first, how many, their weights; and
 * what the others add, which are `fill`. */
typedef struct {
    int first, count;
    const int32_t *weights;
    int32_t start;
} Share;

static Share share(const Filter *f, int output, int from, int to, int fill) {
    const int32_t *weights = f->weights + (size_t)output * (size_t)f->room;
    const int first = f->first[output], end = first + f->count[output];
    int low = first > from ? first : from, high = end < to ? end : to;
    if (high < low) low = high = end;
    Share s = {low, high - low, weights + (low - first), 1 << (BITS - 1)}; /* rounds to nearest */
    for (int k = first; k < end; k++)
        if (k < low || k >= high) s.start += weights[k - first] * fill;
    return s;
}

/* Whether the mask has a pixel, and the tight box of those it has. */
static int tight(const uint8_t *mask, int height, int width, Box *box) {
    int y0 = 0, y1 = height, x0 = width, x1 = 0;
    while (y0 < height && !memchr(mask + (int64_t)y0 * width, 1, (size_t)width)) y0++;
    if (y0 == height) return 0;
    while (!memchr(mask + (int64_t)(y1 - 1) * width, 1, (size_t)width)) y1--;
    for (int y = y0; y < y1; y++) widen(mask + (int64_t)y * width, width, &x0, &x1);
    *box = (Box){y0, y1, x0, x1};
    return 1;
}

/* 16 × 16 bytes, rows and columns change places */
INLINE void turn(uint8_t *out, int64_t out_step, const uint8_t *in, int64_t in_step) {
#if defined(__SSE2__)
    __m128i a[TILE], b[TILE];
    for (int r = 0; r < TILE; r++) a[r] = _mm_loadu_si128((const __m128i *)(in + r * in_step));
    for (int round = 0; round < 2; round++) { /* four times: row r and row r + 8, byte by byte */
        for (int r = 0; r < 8; r++) {
            b[2 * r] = _mm_unpacklo_epi8(a[r], a[r + 8]);
            b[2 * r + 1] = _mm_unpackhi_epi8(a[r], a[r + 8]);
        }
        for (int r = 0; r < 8; r++) {
            a[2 * r] = _mm_unpacklo_epi8(b[r], b[r + 8]);
            a[2 * r + 1] = _mm_unpackhi_epi8(b[r], b[r + 8]);
        }
    }
    for (int r = 0; r < TILE; r++) _mm_storeu_si128((__m128i *)(out + r * out_step), a[r]);
#else
    for (int r = 0; r < TILE; r++)
        for (int c = 0; c < TILE; c++) out[c * out_step + r] = in[r * in_step + c];
#endif
}

/* 16 bytes become `fill` where the mask, of 0 and 1, is 0 */
INLINE void grey_out(uint8_t *pixels, const uint8_t *mask, int fill) {
#if defined(__SSE2__)
    const __m128i grey = _mm_set1_epi8((char)fill), old = _mm_loadu_si128((__m128i *)pixels);
    const __m128i keep = _mm_sub_epi8(_mm_setzero_si128(), _mm_loadu_si128((__m128i *)mask));
    const __m128i kept = _mm_and_si128(_mm_xor_si128(old, grey), keep);
    _mm_storeu_si128((__m128i *)pixels, _mm_xor_si128(kept, grey));
#else
    for (int r = 0; r < TILE; r++) pixels[r] = mask[r] ? pixels[r] : (uint8_t)fill;
#endif
}

static int64_t rounded(int64_t n) { return (n + BAND - 1) / BAND * BAND; }

typedef struct {
    const uint8_t *image, *mask; /* from the corner of the tight box on */
    int64_t pixels, width;       /* of the frame: from that corner to its end, and of a row */
    int tw, th, left, top;       /* the tight box, and its place in the padded one */
    int fill, size;
    Filter across, down;
    int *first, *last; /* of each band: the outputs that are not constant, [first, last) */
    uint8_t *rows, *seen, *turned, *keep, *columns;
    uint8_t *narrow; /* what the first pass makes: `th` rows, `pitch` bytes apart */
    int64_t pitch;
} Work;

/* Columns [from, to) of the band at row y: turned, with `fill` where the mask is not set. */
INLINE void turn_band(Work *w, int y, int from, int to) {
    const uint8_t *image = w->image + (y * w->width + from) * 3;
    const uint8_t *mask = w->mask + y * w->width + from;
    int64_t step = w->width;
    const int n = to - from;
    if ((y + BAND - 1) * step + from + rounded(n) > w->pixels) { /* more than is in the frame */
        const int64_t own = rounded(n);
        for (int r = 0; r < BAND && r < w->th - y; r++) {
            memcpy(w->rows + r * own * 3, image + r * step * 3, (size_t)n * 3);
            memcpy(w->seen + r * own, mask + r * step, (size_t)n);
        }
        image = w->rows, mask = w->seen, step = own;
    }
    for (int r = 0; r < BAND; r += TILE) {
        for (int x = 0; x < n; x += TILE)
            turn(w->keep + x * BAND + r, BAND, mask + r * step + x, step);
        for (int x = 0; x < 3 * n; x += TILE)
            turn(w->turned + x * BAND + r, BAND, image + r * 3 * step + x, 3 * step);
    }
    for (int x = 0; x < n; x++)
        for (int c = 0; c < LINE; c += TILE)
            grey_out(w->turned + x * LINE + c, w->keep + x * BAND + c % BAND, w->fill);
}

/* The first pass of a band; bands with little of the object have few columns to filter. */
FAST static void pass_across(Work *w, int y) {
    const int band = y / BAND, end = w->th - y < BAND ? w->th : y + BAND;
    int from = w->tw, to = 0;
    for (int r = y; r < end; r++) widen(w->mask + r * w->width, w->tw, &from, &to);
    int first = w->size, last = 0;
    if (from < to) turn_band(w, y, from, to);
    memset(w->columns, w->fill, (size_t)w->pitch * BAND);
    for (int i = 0; i < w->size; i++) {
        const Share s = share(&w->across, i, w->left + from, w->left + to, w->fill);
        if (!s.count) continue;
        if (i < first) first = i;
        last = i + 1;
        weigh(w->columns + i * LINE, w->turned + (s.first - w->left - from) * LINE, LINE,
              s.weights, s.count, s.start, LINE);
    }
    w->first[band] = first;
    w->last[band] = last;
    uint8_t *out = w->narrow + y * w->pitch;
    for (int x = 0; x < w->pitch; x += TILE)
        for (int r = 0; r < BAND; r += TILE)
            turn(out + r * w->pitch + x, w->pitch, w->columns + x * BAND + r, BAND);
}

FAST static void pass_down(Work *w, uint8_t *out) {
    const int64_t length = (int64_t)w->size * 3;
    for (int i = 0; i < w->size; i++, out += length) {
        const Share s = share(&w->down, i, w->top, w->top + w->th, w->fill);
        const int top = s.first - w->top;
        int first = w->size, last = 0;
        for (int band = top / BAND; s.count && band <= (top + s.count - 1) / BAND; band++) {
            if (w->first[band] < first) first = w->first[band];
            if (w->last[band] > last) last = w->last[band];
        }
        memset(out, w->fill, (size_t)length);
        if (first < last)
            weigh(out + 3 * first, w->narrow + top * w->pitch + 3 * first, w->pitch, s.weights,
                  s.count, s.start, 3 * (last - first));
    }
}

static int make(const uint8_t *image, const uint8_t *mask, int height, int width, Box t, Box padded,
                int fill, uint8_t *out, int size) {
    const int64_t corner = (int64_t)t.y0 * width + t.x0;
    Work w = {
        .image = image + corner * 3, .mask = mask + corner,
        .pixels = (int64_t)height * width - corner, .width = width,
        .tw = t.x1 - t.x0, .th = t.y1 - t.y0, .left = t.x0 - padded.x0, .top = t.y0 - padded.y0,
        .fill = fill, .size = size, .pitch = rounded((int64_t)size * 3),
    };
    const int64_t bands = rounded(w.th) / BAND, wide = rounded(w.tw) * BAND;
    w.first = malloc(sizeof(int) * 2 * (size_t)bands);
    uint8_t *bytes = malloc((size_t)(8 * wide + (bands + 1) * BAND * w.pitch));
    const int failed = !w.first || !bytes || filter_make(&w.across, padded.x1 - padded.x0, size) ||
                       filter_make(&w.down, padded.y1 - padded.y0, size);
    if (!failed) {
        w.last = w.first + bands;
        w.rows = bytes;
        w.seen = w.rows + 3 * wide;
        w.turned = w.seen + wide;
        w.keep = w.turned + 3 * wide;
        w.columns = w.keep + wide;
        w.narrow = w.columns + BAND * w.pitch;
        for (int y = 0; y < w.th; y += BAND) pass_across(&w, y);
        pass_down(&w, out);
    }
    filter_free(&w.across);
    filter_free(&w.down);
    free(w.first);
    free(bytes);
    return failed ? -1 : 0;
}

/* What is asked for may be a part of the frame, which begins at row `top` and column `left`. */
static PyObject *picture(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer image, mask, out;
    int height, width, minimum, fill, size, top, left, frame_height, frame_width;
    double padding;
    if (!PyArg_ParseTuple(args, "y*y*w*iidiiiiiii", &image, &mask, &out, &height, &width, &padding,
                          &minimum, &fill, &size, &top, &left, &frame_height, &frame_width))
        return NULL;
    PyObject *answer = NULL;
    const int64_t pixels = (int64_t)height * width;
    if (height < 1 || height > LARGEST || width < 1 || width > LARGEST || size < 1 ||
        size > LARGEST || fill < 0 || fill > 255 || minimum < 0 || top < 0 || left < 0 ||
        frame_height > LARGEST || frame_width > LARGEST || top > frame_height - height ||
        left > frame_width - width || !(padding >= 0.0 && padding < 1e6) ||
        image.len != pixels * 3 || mask.len != pixels || out.len != (int64_t)size * size * 3) {
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
            double margin = wanted > minimum ? wanted : minimum;
            if (margin > LARGEST) margin = LARGEST; /* as good as all there is */
            const int more = (int)margin;
            Box p = {t.y0 - more, t.y1 + more, t.x0 - more, t.x1 + more};
            if (p.y0 < -top) p.y0 = -top;
            if (p.x0 < -left) p.x0 = -left;
            if (p.y1 > frame_height - top) p.y1 = frame_height - top;
            if (p.x1 > frame_width - left) p.x1 = frame_width - left;
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

static PyObject *box(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer mask;
    int height, width, found = 0;
    if (!PyArg_ParseTuple(args, "y*ii", &mask, &height, &width)) return NULL;
    const int fits = height > 0 && width > 0 && mask.len == (int64_t)height * width;
    Box t = {0, 0, 0, 0};
    Py_BEGIN_ALLOW_THREADS
    if (fits) found = tight(mask.buf, height, width, &t);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&mask);
    if (!fits) return PyErr_SetString(PyExc_ValueError, "the buffers do not fit the sizes"), NULL;
    if (!found) Py_RETURN_NONE;
    return Py_BuildValue("iiii", t.y0, t.y1, t.x0, t.x1);
}

static PyObject *numbers(const uint8_t *seen) {
    char marked[256];
    Py_ssize_t n = 0;
    for (int k = 0; k < 256; k++)
        if (seen[k]) marked[n++] = (char)k;
    return PyBytes_FromStringAndSize(marked, n);
}

static PyObject *labels(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer rows, out;
    int height, width, depth, failed = 1;
    Flat flat = {{0}, {0, 0, 0, 0}};
    if (!PyArg_ParseTuple(args, "y*w*iii", &rows, &out, &height, &width, &depth)) return NULL;
    const int fits = height > 0 && width > 0 && out.len == (int64_t)height * width &&
                     (depth == 1 || depth == 2 || depth == 4 || depth == 8) &&
                     rows.len == (((int64_t)width * depth + 7) / 8 + 1) * height;
    Py_BEGIN_ALLOW_THREADS
    if (fits) failed = unpack(out.buf, rows.buf, height, width, depth, &flat);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&rows);
    PyBuffer_Release(&out);
    if (!fits) return PyErr_SetString(PyExc_ValueError, "the buffers do not fit the sizes"), NULL;
    if (failed) Py_RETURN_NONE;
    const Box b = flat.box;
    return Py_BuildValue("N(iiii)", numbers(flat.seen), b.y0, b.y1, b.x0, b.x1);
}

static PyObject *values(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer array;
    uint8_t seen[256] = {0};
    if (!PyArg_ParseTuple(args, "y*", &array)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    occurring(array.buf, array.len, seen);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&array);
    return numbers(seen);
}

static PyMethodDef methods[] = {
    {"picture", picture, METH_VARARGS, "Frame and mask to picture; see dejacue.video.crops."},
    {"box", box, METH_VARARGS, "Tight box of a mask of 0 and 1; see dejacue.video.crops."},
    {"labels", labels, METH_VARARGS, "Rows of a PNG to numbers; see dejacue.masks.png."},
    {"values", values, METH_VARARGS, "The bytes that occur, ascending."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_pixels", NULL, 0, methods,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__pixels(void) { return PyModule_Create(&definition); }
