"""A worker as a process: python -m bulk_pipelines_tests.chaos.engine.worker URL NAME JOB_FILE [OPTIONS].

Drains the job, says how that ended, and exits with 0; SIGTERM stops it; SIGUSR1 shows where it is.
"""

import argparse
import faulthandler
import logging
import os
import pickle
import signal
import sys
import threading
from pathlib import Path

from bulk_pipelines_tests.chaos.engine import skew


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("name")
    parser.add_argument("job_file", type=Path)
    parser.add_argument("--skew", type=float, default=0.0)
    parser.add_argument("--flush", type=float, default=0.25, help="seconds between settlements")
    parser.add_argument("--wait", action="store_true", help="begin when a line comes")
    given = parser.parse_args()
    if given.skew:
        skew.install(given.skew)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(message)s", stream=sys.stdout)
    work(given)


def work(given: argparse.Namespace) -> None:
    from bulk_pipelines.database import pool
    from bulk_pipelines.engine.worker.drain import drain
    from bulk_pipelines.engine.worker.runner import Worker
    from bulk_pipelines.engine.worker.settler_limits import SettlerLimits
    from bulk_pipelines_tests.chaos.engine.kinds import KINDS

    # Known beforehand: the database may be away when a worker begins.
    job = pickle.loads(given.job_file.read_bytes())
    engine = pool.connect(given.url, application=given.name)
    print("ready", flush=True)
    if given.wait:
        sys.stdin.readline()
    threading.Thread(target=end_with_the_parent, daemon=True).start()
    limits = SettlerLimits(flush_seconds=given.flush)
    with Worker(engine, KINDS, job, name=given.name, settler_limits=limits) as worker:
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        drained = drain(worker)
    print(f"drained: {drained.end}, {drained.worked} items", flush=True)


def end_with_the_parent() -> None:
    """End this process when the test is killed, which closes its end of the pipe: so it leaves no workers behind."""
    while os.read(0, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
