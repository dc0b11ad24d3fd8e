/* The compiled path of dejacue: what module.c (Python) and the two builds of body.h share.
 *
 * A batch is ragged: every history brings its own tables, runs and queries, and its answers go to
 * consecutive rows of the outputs, one per query.
 */
#ifndef DEJACUE_KERNEL_H
#define DEJACUE_KERNEL_H

#include <stdint.h>

#define LANES 4   /* queries that are calibrated and scanned side by side */
#define FOLDS 16  /* partial sums of a dot product: element j goes to sum j % 16, on every machine */
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
} Nodes;

typedef struct {
    int64_t frames, queries, runs;
    int64_t row;              /* its first one of the outputs */
    const int64_t *offsets;   /* (runs + 1): where its runs begin, and the number of frames */
    const int64_t *numbers;   /* (frames): frame numbers, ascending, or NULL */
    const void *features;     /* (frames, dimension), or NULL */
    int half;                 /* features are float16, not float32 */
    const float *table;       /* (queries, dimension) */
    const float *centre;      /* (dimension), or NULL: rows are used as they are */
    float *cosines;           /* (queries, frames), or NULL */
    double *responses;        /* likewise, or NULL */
    const int64_t *lengths;   /* to try, ascending */
    const double *norms;      /* one per length */
    int64_t lengths_count;
    const double *weights;    /* of the smoothing, by distance 0 … reach */
    int64_t reach;
    Nodes nodes;
    int64_t *path;            /* (frames): labelling: the state of each frame */
    double *levels;           /* (queries): what responses were measured from */
} History;

typedef struct {
    int64_t histories, dimension;
    int64_t smoothing;  /* odd width of the published smoothing */
    int64_t total;      /* search: observed frames of the whole history; 0: all that are given */
    int64_t stay;       /* labelling: least frames of a visit */
    int64_t rounds;     /* labelling: how often levels are found anew */
    double least_scale; /* states: deviations below it are rounding */
    const History *all;
} Batch;

typedef struct {
    int64_t *start, *end;  /* positions among the history's observed frames; -1: no length fits */
    int64_t *first, *last; /* the same as frame numbers, or NULL */
    double *score, *centre, *scale;
} Answers;

enum { OK = 0, NO_MEMORY = 1, BAD_FEATURE = 2, BAD_COSINE = 3, BAD_RESPONSE = 4 };

typedef struct {
    int code;
    int64_t history, row;
} Status;

typedef struct {
    const char *name;
    /* fills the cosines from the features */
    Status (*cosines)(const Batch *batch);
    /* fills out (histories, dimension): the coordinate-wise median of the unit rows */
    Status (*centres)(const Batch *batch, float *out);
    /* cosines → responses, centre, scale */
    Status (*respond)(const Batch *batch, Answers answers);
    /* features or cosines → windows; given responses: scans those */
    Status (*locate)(const Batch *batch, Answers answers);
    /* cosines → state responses, centre, scale */
    Status (*smooth)(const Batch *batch, Answers answers);
    /* features or cosines → the windows of the best contrast; given responses: searches those */
    Status (*contrast)(const Batch *batch, Answers answers);
    /* features, cosines or responses → one labelling of all frames, and its levels */
    Status (*label)(const Batch *batch, Answers answers);
} Engine;

extern const Engine engine_baseline;
extern const Engine engine_avx2; /* name is NULL where this build has no AVX2 */

#endif
