/* The numbers of a flat PNG, faster than zlib: masks are long runs, which are copied as such.
 *
 *   deflate ──▶ a window of filtered rows ──▶ rows ──▶ one byte a pixel, and which bytes occur
 *
 * The window slides: it stays in the cache, with as much of the past as deflate looks back at.
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
#define LONGEST_MATCH 258
#define FARTHEST 32768 /* bytes that a match looks back */
#define WINDOW 131072  /* bytes after which the window slides */
#define PIECE 1024     /* bytes that are moved at once: more become one slow instruction */
#define BLOCK 512      /* bytes that are added to a checksum at once */

typedef struct {
    const uint8_t *in;
    int64_t length, at; /* bytes read, also of the zeros behind the end */
    uint64_t bits;
    int count;
} Bits;

static void bits_fill(Bits *b) { /* to 56 bits at least */
    if (b->length - b->at >= 8) {
        uint64_t eight = 0;
        for (int k = 0; k < 8; k++) eight |= (uint64_t)b->in[b->at + k] << 8 * k;
        b->bits |= eight << b->count;
        b->at += (63 - b->count) / 8;
        b->count |= 56;
    }
    while (b->count < 56) {
        b->bits |= (uint64_t)(b->at < b->length ? b->in[b->at] : 0) << b->count;
        b->at++;
        b->count += 8;
    }
}

static unsigned bits_next(Bits *b, int n) { /* of those that are there */
    const unsigned found = (unsigned)(b->bits & ((UINT64_C(1) << n) - 1));
    b->bits >>= n;
    b->count -= n;
    return found;
}

static unsigned bits_take(Bits *b, int n) {
    bits_fill(b);
    return bits_next(b, n);
}

static int64_t bits_taken(const Bits *b) { return 8 * b->at - b->count; }

/* Whether more was taken than there is. */
static int bits_short(const Bits *b) { return bits_taken(b) > 8 * b->length; }

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

INLINE int codes_read(const Codes *c, Bits *b) { /* -1: no such code */
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
        bits_fill(b);
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

typedef struct {
    int y0, y1, x0, x1;
} Box;

/* What is known of numbers that were read: which occur, and the tight box of those above 0. */
typedef struct {
    uint8_t seen[256];
    Box box;
} Flat;

/* Where rows go, and the window that they come through. */
typedef struct {
    uint8_t *window;
    int64_t capacity, at, taken; /* of the window; filled; of these, read as rows */
    int64_t left, zeros;         /* bytes that are still to come; that came last, and are 0 */
    int64_t step, width;         /* bytes of a row, numbers of a row */
    int depth;
    uint8_t *out, *packed;
    const uint8_t *above; /* the row before, or zeros */
    uint32_t sum, sums;   /* of Adler's checksum */
    int y;                /* of the next row */
    int64_t used[2];      /* first and end of what is not known to be 0 in the output */
    Flat *flat;
} Rows;

static void adler_zeros(Rows *r, int64_t n) {
    r->sums = (uint32_t)((r->sums + n % 65521 * r->sum) % 65521);
}

/* Adds bytes to the checksum. */
FAST static void adler(Rows *r, const uint8_t *p, int64_t n) {
    for (; n > 0; p += BLOCK, n -= BLOCK) {
        const int some = n < BLOCK ? (int)n : BLOCK; /* so many do not overflow 32 bits */
        uint32_t sum = 0, weighted = 0;
        for (int k = 0; k < some; k++) sum += p[k], weighted += (uint32_t)(some - k) * p[k];
        r->sums = (r->sums + (uint32_t)some * r->sum + weighted) % 65521;
        r->sum = (r->sum + sum) % 65521;
    }
}

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

/* Undoes the filter of a row of bytes. */
static int unfilter(int kind, uint8_t *restrict out, const uint8_t *restrict row,
                    const uint8_t *restrict above, int64_t n) {
    uint8_t left = 0;
    switch (kind) {
    case 0: memcpy(out, row, (size_t)n); return 0;
    case 1:
        for (int64_t k = 0; k < n;) {
            uint64_t eight = 1;
            if (k + 8 <= n) memcpy(&eight, row + k, 8);
            if (!eight) { /* eight pixels that are as the one before */
                memset(out + k, left, 8);
                k += 8;
            } else {
                left = out[k] = (uint8_t)(row[k] + left);
                k++;
            }
        }
        return 0;
    case 2:
        for (int64_t k = 0; k < n; k++) out[k] = (uint8_t)(row[k] + above[k]);
        return 0;
    case 3:
        for (int64_t k = 0; k < n; k++) left = out[k] = (uint8_t)(row[k] + (left + above[k]) / 2);
        return 0;
    case 4:
        for (int64_t k = 0; k < n; k++)
            left = out[k] = (uint8_t)(row[k] + paeth(left, above[k], k ? above[k - 1] : 0));
        return 0;
    default: return -1;
    }
}

/* Reads a row, which begins with its filter; `zeros` says that it is known to be 0. */
static int row_read(Rows *r, const uint8_t *row, int zeros) {
    const int plain = zeros || (r->depth == 8 && !row[0]), width = (int)r->width;
    uint8_t *bytes = r->depth == 8 ? r->out : r->packed;
    const int64_t at = r->y * r->width;
    if (zeros && (r->depth < 8 || (at + width > r->used[0] && at < r->used[1])))
        memset(bytes, 0, (size_t)r->step);
    if (!zeros && unfilter(row[0], bytes, row + 1, r->above, r->step)) return -1;
    r->above = bytes;
    if (r->depth < 8) {
        r->packed = r->packed == r->window - r->step ? r->packed - r->step : r->window - r->step;
        for (int x = 0; x < width; x++) {
            const int shift = 8 - r->depth - (int)((int64_t)x * r->depth % 8);
            r->out[x] = (uint8_t)(bytes[(int64_t)x * r->depth / 8] >> shift & ((1 << r->depth) - 1));
        }
    }
    const uint8_t *read = plain ? row + 1 : r->out; /* the window is in the cache, the rest is not */
    int low = width, high = 0;                      /* what lies outside is 0 */
    if (!zeros) widen(read, width, &low, &high);
    if (high - low < width) r->flat->seen[0] = 1;
    if (low < high) {
        Box *box = &r->flat->box;
        if (!box->y1) *box = (Box){r->y, 0, width, 0};
        *box = (Box){box->y0, r->y + 1, low < box->x0 ? low : box->x0, high > box->x1 ? high : box->x1};
        occurring(read + low, high - low, r->flat->seen);
    }
    if (!plain) adler(r, row, r->step + 1);
    else if (low > high) adler_zeros(r, r->step + 1);
    else {
        adler_zeros(r, low + 1);
        adler(r, row + 1 + low, high - low);
        adler_zeros(r, width - high);
    }
    r->out += width, r->y++;
    return 0;
}

/* Reads the rows that are complete, and keeps room for another match in the window. */
static int rows_read(Rows *r) {
    const int zeros = r->zeros >= r->at - r->taken;
    for (; r->at - r->taken > r->step; r->taken += r->step + 1)
        if (row_read(r, r->window + r->taken, zeros)) return -1;
    if (r->at <= r->capacity - LONGEST_MATCH) return 0;
    int64_t past = r->at - FARTHEST < r->taken ? r->at - FARTHEST : r->taken;
    r->at -= past, r->taken -= past;
    for (int64_t k = 0; k < r->at; k += PIECE)
        memmove(r->window + k, r->window + past + k, (size_t)(r->at - k < PIECE ? r->at - k : PIECE));
    return 0;
}

static void copy_back(Rows *r, int64_t distance, int64_t n) {
    uint8_t *out = r->window + r->at;
    r->at += n, r->left -= n;
    r->zeros = distance == 1 && r->zeros ? r->zeros + n : 0;
    if (distance == 1) memset(out, out[-1], (size_t)n);
    else
        while (n > 0) { /* what is copied may be copied again: twice as much each time */
            const int64_t some = n < distance ? n : distance;
            memcpy(out, out - distance, (size_t)some);
            out += some, n -= some, distance += some;
        }
}

static int inflate_codes(Bits *b, const Codes *literal, const Codes *distance, Rows *r) {
    static const uint16_t lengths[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                         31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const uint8_t more[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                     2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    static const uint16_t steps[30] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,
                                       33,  49,  65,  97,  129, 193,  257,  385,  513,  769,
                                       1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    for (;;) {
        if (r->at - r->taken > r->step || r->at > r->capacity - LONGEST_MATCH)
            if (rows_read(r)) return -1;
        bits_fill(b); /* a match has at most 15 + 5 + 15 + 13 bits */
        const uint64_t before = b->bits;
        const int count = b->count, s = codes_read(literal, b);
        if (s < 0 || bits_short(b)) return -1;
        if (s < 256) {
            if (!r->left--) return -1;
            r->window[r->at++] = (uint8_t)s;
            r->zeros = s ? 0 : r->zeros + 1;
            continue;
        }
        if (s == 256) return 0;
        if (s > 285) return -1;
        int64_t n = lengths[s - 257] + (int64_t)bits_next(b, more[s - 257]);
        const int d = codes_read(distance, b);
        if (d < 0 || d > 29) return -1;
        const int64_t back = steps[d] + (int64_t)bits_next(b, d < 4 ? 0 : d / 2 - 1);
        if (back > r->at) return -1;
        /* where the same bits follow, it is one longer match */
        const int used = count - b->count;
        const uint64_t mask = (UINT64_C(1) << used) - 1;
        const int64_t one = n, most = r->capacity - r->at - one;
        for (; n <= most; n += one) {
            if (b->count < used) bits_fill(b);
            if ((b->bits ^ before) & mask) break;
            bits_next(b, used);
        }
        if (n > r->left) return -1;
        copy_back(r, back, n);
    }
}

/* 0 if a zlib stream holds exactly the rows. */
static int inflate_rows(const uint8_t *in, int64_t length, Rows *r) {
    if (length < 6 || (in[0] & 15) != 8 || in[1] & 32 || (in[0] << 8 | in[1]) % 31) return -1;
    Bits b = {in, length, 2, 0, 0};
    Codes codes[2];
    for (int last = 0, failed = 0; !last;) {
        last = (int)bits_take(&b, 1);
        const unsigned kind = bits_take(&b, 2);
        if (kind == 0) {
            bits_take(&b, b.count % 8);
            int64_t n = bits_take(&b, 16), from = b.at - b.count / 8 + 2;
            failed = (n ^ bits_take(&b, 16)) != 0xffff || n > r->left || n > length - from;
            b = (Bits){in, length, from + n, 0, 0};
            r->zeros = 0;
            for (r->left -= n; n && !failed;) {
                const int64_t some = n < r->capacity - r->at ? n : r->capacity - r->at;
                memcpy(r->window + r->at, in + from, (size_t)some);
                r->at += some, from += some, n -= some;
                failed = r->at == r->capacity && rows_read(r);
            }
        } else {
            failed = kind == 3 || (kind == 2 && codes_of_block(&b, codes, codes + 1));
            if (kind == 1) codes_fixed(codes, codes + 1);
            failed = failed || inflate_codes(&b, codes, codes + 1, r);
        }
        if (failed || bits_short(&b)) return -1;
    }
    if (r->left || rows_read(r)) return -1;
    bits_take(&b, b.count % 8);
    uint32_t sum = 0;
    for (int k = 0; k < 4; k++) sum = sum << 8 | bits_take(&b, 8);
    return bits_short(&b) || sum != (r->sums << 16 | r->sum) ? -1 : 0;
}

/* (height, width) numbers of a zlib stream of PNG rows with 1, 2, 4 or 8 bits a pixel; `flat` is
 * zeros before. Behind the numbers stand two more: the first byte that may not be 0 already, and
 * the byte after the last; most of the others stay as they are. */
static int png_labels(const uint8_t *in, int64_t length, uint8_t *out, int64_t height,
                      int64_t width, int depth, Flat *flat) {
    const int64_t step = (width * depth + 7) / 8, more = step < WINDOW ? WINDOW : step + 1;
    const int64_t capacity = (step < FARTHEST ? FARTHEST : step) + more;
    uint8_t *room = malloc((size_t)(2 * step + capacity));
    if (!room) return -1;
    Rows r = {.window = room + 2 * step, .capacity = capacity, .left = (step + 1) * height,
              .step = step, .width = width, .depth = depth, .out = out, .packed = room,
              .above = memset(room + step, 0, (size_t)step), .sum = 1, .flat = flat};
    uint8_t *tail = out + height * width;
    memcpy(r.used, tail, sizeof r.used);
    memcpy(tail, (int64_t[2]){0, height * width}, sizeof r.used); /* should it fail */
    const int failed = inflate_rows(in, length, &r);
    if (!failed)
        memcpy(tail, (int64_t[2]){flat->box.y0 * width, flat->box.y1 * width}, sizeof r.used);
    free(room);
    return failed;
}
#endif
