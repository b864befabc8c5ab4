"""Object storage: buckets of several kinds behind one small interface, and stores that are read from them.

bucket        what is asked of a bucket: list, find, read, put, put if it is not there, copy, delete
cloud         buckets of S3, Google, Azure and OSS, through obstore
aws_profile   credentials in ~/.aws, and the region of a bucket
web_hdfs      HDFS, through WebHDFS
opening       the bucket of a URL
object_store  implements `Effects`: reads stores in buckets
object_file   opens one object as a file for Arrow and others
remote_file   reads one object in ranges of bounded size

Names are keys: paths without a leading slash, below the bucket. Whoever writes relies on two promises that all kinds
keep: an object appears whole or not at all, and of two that `put_new` one key, one wins.
"""
