/* The compiled path of dejacue: what module.c (Python) and the two builds of body.h share.
 *
 * A batch is ragged: history h owns frames frame_offsets[h] … frame_offsets[h+1], its observed
 * runs are cut at run_offsets[history_runs[h] …] (the same frame positions), its queries are rows
 * query_first[h] … of one table, and its answers go to rows query_offsets[h] … of the outputs.
 */
#ifndef DEJACUE_KERNEL_H
#define DEJACUE_KERNEL_H

#include <stdint.h>

#define LANES 4   /* queries that are calibrated and scanned side by side */
#define FOLDS 16  /* partial sums of a dot product: element j goes to sum j % 16, on every machine */
#define COLUMNS 8 /* dimensions whose medians are found side by side */
#define BLOCK 32  /* starts that are pruned together */
#define ROWS 64   /* feature rows whose cosines are finished together */

typedef struct {
    int64_t histories, dimension;
    const int64_t *frame_offsets, *run_offsets, *history_runs;
    const int64_t *query_first, *query_offsets;
    const void *const *features; /* one (frames, dimension) table per history, or NULL */
    const int *halves;           /* 1: that table is float16, 0: float32 */
    const float *queries;        /* (rows, dimension) */
    const float *centres;        /* (histories, dimension), or NULL: rows are used as they are */
    float *const *cosines;       /* one (queries, frames) table per history, or NULL */
    double *const *responses;    /* likewise, or NULL */
    const int64_t *lengths;      /* schedule k: lengths[length_offsets[k] …], ascending */
    const double *norms;         /* one per length */
    const int64_t *length_offsets;
    const int64_t *schedules;    /* which schedule each history uses */
    int64_t smoothing;           /* odd width */
} Batch;

typedef struct {
    int64_t *start, *end; /* positions among the history's observed frames; -1: no length fits */
    double *score, *centre, *scale;
} Answers;

enum { OK = 0, NO_MEMORY = 1, BAD_FEATURE = 2, BAD_COSINE = 3, BAD_RESPONSE = 4 };

typedef struct {
    int code;
    int64_t history, row;
} Status;

typedef struct {
    const char *name;
    /* fills batch->cosines from batch->features */
    Status (*cosines)(const Batch *batch);
    /* fills out (histories, dimension): the coordinate-wise median of the unit rows */
    Status (*centres)(const Batch *batch, float *out);
    /* batch->cosines → batch->responses, centre, scale */
    Status (*respond)(const Batch *batch, Answers answers);
    /* features or cosines → windows; given responses: scans those */
    Status (*locate)(const Batch *batch, Answers answers);
} Engine;

extern const Engine engine_baseline;
extern const Engine engine_avx2; /* name is NULL where this build has no AVX2 */

#endif
