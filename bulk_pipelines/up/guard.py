"""The process that ends everything `bulk up` started, when `bulk up` itself was killed.

Its standard input is a pipe whose other end only the supervisor holds: the pipe's end is the supervisor's end.
"""

import sys
from pathlib import Path

from bulk_pipelines.up import processes

GRACE = 10

if __name__ == "__main__":
    installation = processes.identity(Path(sys.argv[1]))  # now: the folder may be gone by then
    sys.stdin.read()
    processes.end(installation, GRACE)
