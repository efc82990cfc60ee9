"""The process that ends everything `bulk up` started, when `bulk up` itself was killed.

Its standard input is a pipe whose other end only the supervisor holds: the pipe's end is the supervisor's end.
"""

import sys

from bulk_pipelines.up import processes

GRACE = 10

if __name__ == "__main__":
    sys.stdin.read()
    processes.end(sys.argv[1], GRACE)
