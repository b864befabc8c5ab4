"""Object storage: buckets of several kinds behind one small interface.

    bucket     what is asked of a bucket: list, find, read, put, put if it is not there, copy, delete
    cloud      buckets of S3, through obstore
    opening    the bucket of a URL

Names are keys: paths without a leading slash, below the bucket. Whoever writes relies on two promises that all kinds
keep: an object appears whole or not at all, and of two that `put_new` one key, one wins.
"""
