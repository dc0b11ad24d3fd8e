/* The compiled path of dejacue: what module.c (Python) and the two builds of body.h share.
 *
 * Every operation is one function of the arrays of one history.
 */
#ifndef DEJACUE_KERNEL_H
#define DEJACUE_KERNEL_H

#include <stdint.h>

#define LANES 4   /* queries that are calibrated and scanned side by side */
#define FOLDS 16  /* partial sums of a dot product: element j goes to sum j % 16 */
#define COLUMNS 8 /* dimensions whose medians are found side by side */
#define BLOCK 32  /* starts that are pruned together */
#define ROWS 64   /* feature rows whose cosines are finished together */

/* What a path through the states may be in: see _labelling.py. */
typedef struct {
    int64_t count;
    const int64_t *state;   /* of each node */
    const uint8_t *first;   /* which nodes may come first */
    const uint8_t *follows; /* (count, count): whether column may follow row */
    double cost;            /* of a switch */
    int64_t stay, rounds;   /* least frames of a visit; how often levels are found anew */
} Nodes;

/* One history, or what is known of it: an operation reads the fields that it is given. */
typedef struct {
    int64_t frames, queries, dimension, runs;
    const int64_t *offsets;   /* (runs + 1): where its runs begin, and the number of frames */
    const int64_t *numbers;   /* (frames): frame numbers, ascending */
    const void *features;     /* (frames, dimension) */
    int half;                 /* features are float16, not float32 */
    const float *table;       /* (queries, dimension) */
    const float *centre;      /* (dimension), or NULL: rows are used as they are */
    float *cosines;           /* (queries, frames) */
    double *responses;        /* likewise */
    int64_t smoothing;        /* odd width of the published smoothing */
    const int64_t *lengths;   /* to try, ascending */
    const double *norms;      /* one per length */
    int64_t lengths_count;
    const double *weights;    /* of the smoothing of states, by distance 0 … reach */
    int64_t reach;
    double least_scale;       /* deviations of states below it are rounding */
} History;

/* One row per query; positions among the observed frames, -1: no length fits. */
typedef struct {
    int64_t *start, *end;
    double *score, *centre, *scale;
} Answers;

/* Stretches of rows of responses, each of which is searched by itself. */
typedef struct {
    int64_t count;
    const int64_t *row, *first, *stop;
} Parts;

enum { OK = 0, NO_MEMORY = 1, BAD_FEATURE = 2, BAD_COSINE = 3, BAD_RESPONSE = 4 };

typedef struct {
    int code;
    int64_t row; /* the frame at which a value is not finite */
} Status;

typedef struct {
    const char *name;
    Status (*cosines)(const History *h);             /* features → cosines */
    Status (*centre)(const History *h, float *out);  /* coordinate-wise median of the unit rows */
    Status (*respond)(const History *h, Answers a);  /* cosines → responses, centre, scale */
    Status (*locate)(const History *h, Answers a);   /* cosines, or responses → windows */
    Status (*contrast)(const History *h, Answers a); /* cosines → state responses, windows if asked */
    Status (*search)(const History *h, Answers a);   /* state responses → windows */
    Status (*search_parts)(const History *h, const Parts *parts, Answers a);
    /* state responses → one labelling of all frames, and its levels */
    Status (*label)(const History *h, const Nodes *nodes, int64_t *path, double *levels);
} Engine;

extern const Engine engine_baseline;
extern const Engine engine_avx2; /* name is NULL where this build has no AVX2 */

#endif
