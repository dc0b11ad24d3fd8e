/* Buffers of Python that are held for the length of one call. Included by module.c. */

typedef struct {
    Py_buffer *views;
    int64_t used, room;
} Held;

static void release(Held *held) {
    for (int64_t i = 0; i < held->used; i++) PyBuffer_Release(held->views + i);
    free(held->views);
}

static void *refuse(const char *name, const char *reason) {
    PyErr_Format(PyExc_ValueError, "%s: %s", name, reason);
    return NULL;
}

/* One contiguous array of `ndim` dimensions and items of `item` bytes (0: 2 or 4). */
static const Py_buffer *hold(Held *held, PyObject *object, int ndim, int64_t item, int writable,
                             const char *name) {
    if (held->used == held->room) return refuse(name, "too many buffers");
    Py_buffer *view = held->views + held->used;
    if (PyObject_GetBuffer(object, view, PyBUF_ND | (writable ? PyBUF_WRITABLE : 0))) return NULL;
    held->used++;
    if (view->ndim != ndim) return refuse(name, "wrong number of dimensions");
    if (item ? view->itemsize != item : view->itemsize != 2 && view->itemsize != 4)
        return refuse(name, "wrong type of items");
    return view;
}

/* A flat array with that many items (any, if < 0). */
static void *hold_flat(Held *held, PyObject *object, int64_t item, int64_t items, int writable,
                       const char *name, int64_t *found) {
    const Py_buffer *view = hold(held, object, 1, item, writable, name);
    if (!view) return NULL;
    if (items >= 0 && view->shape[0] != items) return refuse(name, "wrong number of items");
    if (found) *found = view->shape[0];
    return view->buf;
}
