/* The numbers of a flat PNG, faster than zlib: masks are long runs, which are copied as such.
 *
 *   deflate ──▶ filtered rows ──▶ rows ──▶ one byte a pixel
 *
 * Only what is whole and ordinary is read; of all else png_labels() says no, and the caller asks
 * Pillow, which also knows what is wrong with it.
 */
#ifndef PNG_H
#define PNG_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define QUICK 10 /* bits of a code that are looked up at once */
#define LONGEST 15

typedef struct {
    const uint8_t *in;
    int64_t length, at; /* bytes read, also of the zeros behind the end */
    uint64_t bits;
    int count;
} Bits;

static void bits_fill(Bits *b) {
    while (b->count <= 56) {
        b->bits |= (uint64_t)(b->at < b->length ? b->in[b->at] : 0) << b->count;
        b->at++;
        b->count += 8;
    }
}

static unsigned bits_take(Bits *b, int n) { /* at most 32 */
    bits_fill(b);
    const unsigned found = (unsigned)(b->bits & ((UINT64_C(1) << n) - 1));
    b->bits >>= n;
    b->count -= n;
    return found;
}

/* Whether more was taken than there is. */
static int bits_short(const Bits *b) { return b->at - b->count / 8 > b->length; }

typedef struct {
    uint16_t quick[1 << QUICK]; /* symbol · 16 + length; 0: a longer code, or none */
    uint16_t count[LONGEST + 1], symbols[288];
} Codes;

/* As in zlib, codes must use up all bits, unless there are none or, where `single`, one of a bit. */
static int codes_make(Codes *c, const uint8_t *lengths, int n, int single) {
    uint16_t first[LONGEST + 2] = {0};
    unsigned next[LONGEST + 2] = {0};
    memset(c, 0, sizeof *c);
    for (int s = 0; s < n; s++) c->count[lengths[s]]++;
    c->count[0] = 0;
    unsigned code = 0;
    int spare = 1, longest = 0;
    for (int len = 1; len <= LONGEST; len++) {
        spare = 2 * spare - c->count[len];
        if (c->count[len]) longest = len;
        code = (code + (len > 1 ? c->count[len - 1] : 0)) << 1;
        if (code + c->count[len] > 1u << len) return -1; /* more codes than there can be */
        next[len] = code;
        first[len + 1] = (uint16_t)(first[len] + c->count[len]);
    }
    if (spare > 0 && longest && !(single && longest == 1)) return -1;
    for (int s = 0; s < n; s++) {
        const int len = lengths[s];
        if (!len) continue;
        c->symbols[first[len]++] = (uint16_t)s;
        unsigned turned = 0, own = next[len]++;
        for (int k = 0; k < len; k++, own >>= 1) turned = turned << 1 | (own & 1);
        if (len <= QUICK)
            for (unsigned k = turned; k < 1u << QUICK; k += 1u << len)
                c->quick[k] = (uint16_t)(s << 4 | len);
    }
    return 0;
}

static int codes_read(const Codes *c, Bits *b) { /* -1: no such code */
    bits_fill(b);
    const unsigned found = c->quick[b->bits & ((1u << QUICK) - 1)];
    if (found) {
        b->bits >>= found & 15;
        b->count -= (int)(found & 15);
        return (int)(found >> 4);
    }
    int code = 0, first = 0, at = 0;
    for (int len = 1; len <= LONGEST; len++) {
        code |= (int)(b->bits >> (len - 1) & 1);
        const int own = c->count[len];
        if (code - own < first) {
            b->bits >>= len;
            b->count -= len;
            return c->symbols[at + code - first];
        }
        at += own;
        first = (first + own) << 1;
        code <<= 1;
    }
    return -1;
}

static int codes_of_block(Bits *b, Codes *literal, Codes *distance) {
    static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14,
                                      1, 15};
    uint8_t lengths[288 + 32] = {0};
    const int n = (int)bits_take(b, 5) + 257, m = (int)bits_take(b, 5) + 1;
    const int k = (int)bits_take(b, 4) + 4;
    for (int i = 0; i < k; i++) lengths[order[i]] = (uint8_t)bits_take(b, 3);
    if (n > 286 || m > 30 || codes_make(literal, lengths, 19, 0)) return -1;
    memset(lengths, 0, sizeof lengths);
    for (int i = 0; i < n + m;) {
        const int s = codes_read(literal, b);
        if (s < 0 || (s == 16 && !i)) return -1;
        int times = 1;
        uint8_t value = (uint8_t)s;
        if (s == 16) times = 3 + (int)bits_take(b, 2), value = lengths[i - 1];
        if (s == 17) times = 3 + (int)bits_take(b, 3), value = 0;
        if (s == 18) times = 11 + (int)bits_take(b, 7), value = 0;
        if (i + times > n + m) return -1;
        while (times--) lengths[i++] = value;
    }
    if (!lengths[256]) return -1; /* no end */
    return codes_make(literal, lengths, n, 1) || codes_make(distance, lengths + n, m, 1) ? -1 : 0;
}

static void codes_fixed(Codes *literal, Codes *distance) {
    uint8_t lengths[288];
    for (int s = 0; s < 288; s++) lengths[s] = s < 144 ? 8 : s < 256 ? 9 : s < 280 ? 7 : 8;
    codes_make(literal, lengths, 288, 0);
    memset(lengths, 5, 32); /* two of which mean nothing */
    codes_make(distance, lengths, 32, 0);
}

static int64_t copy_back(uint8_t *out, int64_t at, int64_t distance, int64_t n) {
    if (distance == 1) {
        memset(out + at, out[at - 1], (size_t)n);
        return at + n;
    }
    while (n > 0) { /* what is copied may be copied again: twice as much each time */
        const int64_t some = n < distance ? n : distance;
        memcpy(out + at, out + at - distance, (size_t)some);
        at += some, n -= some, distance += some;
    }
    return at;
}

static int64_t inflate_codes(Bits *b, const Codes *literal, const Codes *distance, uint8_t *out,
                             int64_t at, int64_t size) {
    static const uint16_t lengths[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                         31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const uint8_t more[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                     2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    static const uint16_t steps[30] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,
                                       33,  49,  65,  97,  129, 193,  257,  385,  513,  769,
                                       1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    for (;;) {
        const int s = codes_read(literal, b);
        if (s < 0 || bits_short(b)) return -1;
        if (s < 256) {
            if (at == size) return -1;
            out[at++] = (uint8_t)s;
            continue;
        }
        if (s == 256) return at;
        if (s > 285) return -1;
        const int64_t n = lengths[s - 257] + (int64_t)bits_take(b, more[s - 257]);
        const int d = codes_read(distance, b);
        if (d < 0 || d > 29) return -1;
        const int64_t back = steps[d] + (int64_t)bits_take(b, d < 4 ? 0 : d / 2 - 1);
        if (back > at || n > size - at) return -1;
        at = copy_back(out, at, back, n);
    }
}

FAST static uint32_t adler(const uint8_t *p, int64_t n) {
    uint32_t a = 1, b = 0;
    while (n > 0) {
        const int some = n < 4096 ? (int)n : 4096; /* so many do not overflow 32 bits */
        uint32_t sum = 0, weighted = 0;
        uint8_t any = 0; /* most of a mask is not the object */
        for (int k = 0; k < some; k++) any |= p[k];
        if (any)
            for (int k = 0; k < some; k++) sum += p[k], weighted += (uint32_t)(some - k) * p[k];
        b = (b + (uint32_t)some * a % 65521 + weighted % 65521) % 65521;
        a = (a + sum) % 65521;
        p += some, n -= some;
    }
    return b << 16 | a;
}

/* 0 if a zlib stream holds exactly `size` bytes. */
static int inflate_whole(const uint8_t *in, int64_t length, uint8_t *out, int64_t size) {
    if (length < 6 || (in[0] & 15) != 8 || in[1] & 32 || (in[0] << 8 | in[1]) % 31) return -1;
    Bits b = {in, length, 2, 0, 0};
    Codes *codes = malloc(2 * sizeof(Codes));
    int64_t at = codes ? 0 : -1;
    for (int last = 0; at >= 0 && !last;) {
        last = (int)bits_take(&b, 1);
        const unsigned kind = bits_take(&b, 2);
        if (kind == 0) {
            bits_take(&b, b.count % 8);
            const unsigned n = bits_take(&b, 16), turned = bits_take(&b, 16);
            if ((n ^ turned) != 0xffff || (int64_t)n > size - at) at = -1;
            for (unsigned k = 0; at >= 0 && k < n; k++) out[at++] = (uint8_t)bits_take(&b, 8);
        } else if (kind == 3 || (kind == 2 && codes_of_block(&b, codes, codes + 1))) {
            at = -1;
        } else {
            if (kind == 1) codes_fixed(codes, codes + 1);
            at = inflate_codes(&b, codes, codes + 1, out, at, size);
        }
        if (bits_short(&b)) at = -1;
    }
    free(codes);
    if (at != size) return -1;
    bits_take(&b, b.count % 8);
    uint32_t sum = 0;
    for (int k = 0; k < 4; k++) sum = sum << 8 | bits_take(&b, 8);
    return bits_short(&b) || sum != adler(out, size) ? -1 : 0;
}

static uint8_t paeth(int a, int b, int c) {
    const int pa = abs(b - c), pb = abs(a - c), pc = abs(a + b - 2 * c);
    return (uint8_t)(pa <= pb && pa <= pc ? a : pb <= pc ? b : c);
}

/* Undoes the filter of a row of bytes, in place; `above` is the row before, or zeros. */
static int unfilter(int kind, uint8_t *restrict row, const uint8_t *restrict above, int64_t n) {
    uint8_t left = 0;
    switch (kind) {
    case 0: return 0;
    case 1:
        for (int64_t k = 0; k < n;) {
            uint64_t eight = 1;
            if (k + 8 <= n) memcpy(&eight, row + k, 8);
            if (!eight) { /* eight pixels that are as the one before */
                memset(row + k, left, 8);
                k += 8;
            } else {
                left = row[k] = (uint8_t)(row[k] + left);
                k++;
            }
        }
        return 0;
    case 2:
        for (int64_t k = 0; k < n; k++) row[k] = (uint8_t)(row[k] + above[k]);
        return 0;
    case 3:
        for (int64_t k = 0; k < n; k++) left = row[k] = (uint8_t)(row[k] + (left + above[k]) / 2);
        return 0;
    case 4:
        for (int64_t k = 0; k < n; k++)
            left = row[k] = (uint8_t)(row[k] + paeth(left, above[k], k ? above[k - 1] : 0));
        return 0;
    default: return -1;
    }
}

/* Bytes of memory that png_labels() works in. */
static int64_t png_room(int64_t height, int64_t width, int depth) {
    const int64_t step = (width * depth + 7) / 8;
    return (step + 1) * height + step;
}

/* (height, width) numbers of a zlib stream of PNG rows with 1, 2, 4 or 8 bits a pixel. */
static int png_labels(const uint8_t *in, int64_t length, uint8_t *out, uint8_t *raw,
                      int64_t height, int64_t width, int depth) {
    const int64_t step = (width * depth + 7) / 8;
    const uint8_t *above = memset(raw + (step + 1) * height, 0, (size_t)step);
    int failed = inflate_whole(in, length, raw, (step + 1) * height);
    for (int64_t y = 0; y < height && !failed; y++, out += width) {
        uint8_t *row = raw + y * (step + 1) + 1;
        failed = unfilter(row[-1], row, above, step);
        above = row;
        if (depth == 8) memcpy(out, row, (size_t)width);
        else
            for (int64_t x = 0; x < width; x++) {
                const int shift = 8 - depth - (int)(x * depth % 8);
                out[x] = (uint8_t)(row[x * depth / 8] >> shift & ((1 << depth) - 1));
            }
    }
    return failed;
}
#endif
