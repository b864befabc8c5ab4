"""Kernels: hot loops over plain buffers, in Cython's pure-Python mode.

Rules of this folder: a kernel takes buffers, integers and output arrays, never objects of the store. It releases the
GIL. Every length from a file is compared with the bytes at hand before it is used. Each `.py` also runs uncompiled
(slower); the `.pxd` beside it declares the C types, the `.pyi` the Python ones. A name is that of one kernel.

A room imports those above it in this list alone, and all import what lies beside them here:

read     validates records, locates their parts, selects, gathers and sums them up
write    encodes messages, appends them, inserts index items; answers a plain get from what was put
threads  waits, wakes and syncs without the GIL

call_stack  looks for frames of the engine in the call stack
only_file   reads the only file of a directory
buffers     names the types of arrays that kernels take; not a kernel itself
"""

from flintmq.kernels import _select
from flintmq.kernels._select import compiled

__all__ = ["compiled"]

_select.install()
