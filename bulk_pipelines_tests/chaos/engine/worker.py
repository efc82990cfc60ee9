"""A worker as a process: python -m bulk_pipelines_tests.chaos.engine.worker URL NAME JOB_FILE [--skew S] [--wait].

Drains the job, says how that ended, and exits with 0; SIGTERM stops it; SIGUSR1 shows where it is.
"""

import argparse
import faulthandler
import logging
import pickle
import signal
import sys
from pathlib import Path

from bulk_pipelines_tests.chaos.engine import skew


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("name")
    parser.add_argument("job_file", type=Path)
    parser.add_argument("--skew", type=float, default=0.0)
    parser.add_argument("--wait", action="store_true", help="begin when a line comes")
    given = parser.parse_args()
    if given.skew:
        skew.install(given.skew)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(message)s", stream=sys.stdout)
    work(given.url, given.name, given.job_file, given.wait)


def work(url: str, name: str, job_file: Path, wait: bool) -> None:
    from bulk_pipelines.database import pool
    from bulk_pipelines.engine.drain import drain
    from bulk_pipelines.engine.runner import Worker
    from bulk_pipelines_tests.chaos.engine.kinds import KINDS

    # Known beforehand: the database may be away when a worker begins.
    job = pickle.loads(job_file.read_bytes())
    engine = pool.connect(url, application=name)
    print("ready", flush=True)
    if wait:
        sys.stdin.readline()
    with Worker(engine, KINDS, job, name=name) as worker:
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        drained = drain(worker)
    print(f"drained: {drained.end}, {drained.worked} items", flush=True)


if __name__ == "__main__":
    main()
