/* What loop_puts.py asks of CPython's asyncio. */
#pragma once
#include <Python.h>
#include <string.h>

/* Return whether a future's callback is the step of a task of asyncio's own class. It looks at the future that it is
 * called with only for an exception. */
static inline int fmq_is_task_step(PyObject *callback) {
    return PyCFunction_CheckExact(callback) && strcmp(((PyCFunctionObject *)callback)->m_ml->ml_name, "task_wakeup") == 0;
}
