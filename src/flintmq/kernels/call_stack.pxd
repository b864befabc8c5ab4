# C functions of call_stack.py, which fast_get shares.
cdef extern from *:
    """
    #include <Python.h>
    #include <string.h>

    static inline PyObject *fmq_name_key(void) {
        static PyObject *key; /* made once, and never given back */
        if (!key && !(key = PyUnicode_InternFromString("__name__"))) PyErr_Clear();
        return key;
    }

    /* Step to the frame around this one, whose reference is taken; return the UTF-8 name of its module, NULL without one.
     * *frame is NULL after the outermost. The name lives as long as the module. */
    static inline const char *fmq_outer(PyFrameObject **frame, PyObject *key) {
        PyFrameObject *back = PyFrame_GetBack(*frame);
        Py_DECREF(*frame);
        *frame = back;
        if (!back) return NULL;
        PyObject *globals = PyFrame_GetGlobals(back);
        PyObject *name = globals ? PyDict_GetItem(globals, key) : NULL;
        const char *text = name && PyUnicode_CheckExact(name) ? PyUnicode_AsUTF8(name) : NULL;
        if (!text) PyErr_Clear();
        Py_XDECREF(globals);
        return text;
    }

    static inline int fmq_is_engine(const char *name) {
        return name && (!strncmp(name, "flintmq.store.", 14) || !strncmp(name, "flintmq.storage.", 16));
    }

    /* Return whether one of the 24 frames that surround the innermost one runs code of the engine. Only the main thread's
     * are looked at: it is where signal handlers run. */
    static inline int fmq_amid_engine(unsigned long main_thread) {
        if (PyThread_get_thread_ident() != main_thread) return 0;
        PyObject *key = fmq_name_key();
        if (!key) return 1; /* the caller then looks by itself */
        int found = 0;
        PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
        for (int left = 25; frame && left > 0 && !found; left--) found = fmq_is_engine(fmq_outer(&frame, key));
        Py_XDECREF(frame);
        return found;
    }

    /* Return whether one of the frames around the innermost ones of this package runs code of the engine. */
    static inline int fmq_engine_around(int most) {
        PyObject *key = fmq_name_key();
        if (!key) return 1;
        int found = 0, ours = 1;
        PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get()); /* the one that asks is of the package */
        while (frame && most > 0 && !found) {
            const char *name = fmq_outer(&frame, key);
            ours = ours && name && !strncmp(name, "flintmq.", 8);
            if (ours) continue;
            most--;
            found = fmq_is_engine(name);
        }
        Py_XDECREF(frame);
        return found;
    }
    """
    bint fmq_amid_engine(unsigned long main_thread)
    bint fmq_engine_around(int most)
