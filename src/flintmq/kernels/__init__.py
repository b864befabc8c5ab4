"""Hot loops over plain buffers, in Cython's pure-Python mode.

Rules of this folder: a kernel takes buffers, integers and output arrays, never objects of the store. It releases the
GIL. Every length that comes from a file is compared with the bytes that are there before it is used. Each `.py` also
runs uncompiled (slower); the `.pxd` beside it gives the C types, the `.pyi` the Python ones.
"""

from flintmq.kernels import _select
from flintmq.kernels._select import compiled

__all__ = ["compiled"]

_select.install()
