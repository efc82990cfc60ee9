"""Worker processes on one job, and others in the place of those that died, as Dagster's retries would start them."""

import pickle
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.scenes.waiting import until


@dataclass(frozen=True)
class Member:
    name: str
    skew: float
    process: subprocess.Popen[str]
    log: Path

    def said(self, text: str) -> bool:
        return text in self.log.read_text()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def go(self) -> None:
        """Let a worker begin that was told to wait."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def suspend(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def ended(self, seconds: float = 30) -> int:
        """Wait until the worker has ended, and return its exit code."""
        until(lambda: not self.alive, f"the worker {self.name} has ended", seconds)
        return int(self.process.returncode)


class Crew:
    """Use as a context: all its processes are gone afterwards. `hired` has those of now, by their places."""

    def __init__(self, url: str, job: Job, folder: Path, *options: str) -> None:
        self.url = url
        self.options = options
        self.folder = folder
        self.job_file = folder / "job.pickle"
        self.job_file.write_bytes(pickle.dumps(job))
        self.members: list[Member] = []
        self.all: list[Member] = []
        self.replaced = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            if member.alive and kind is not None:
                member.resume()
                member.process.send_signal(signal.SIGUSR1)
                try:
                    member.process.wait(0.5)
                except subprocess.TimeoutExpired:
                    print(f"{member.name} is still alive")
            member.process.kill()
            member.process.communicate()
        if kind is not None:
            for member in self.all:
                print(f"--- {member.name}, exit code {member.process.returncode}:\n{member.log.read_text()}")

    def hire(self, count: int = 1, *, skew: float = 0.0, wait: bool = False) -> list[Member]:
        """Start new workers, and return them when all are up and ready."""
        started = [self.start(skew, wait) for _ in range(count)]
        for member in started:
            until(lambda member=member: member.said("ready") or not member.alive, f"{member.name} is ready")  # type: ignore[misc]
        self.members += started
        return started

    def start(self, skew: float, wait: bool = False) -> Member:
        name = f"worker-{len(self.all) + 1}"
        log = self.folder / f"{name}.log"
        command = ["-m", "bulk_pipelines_tests.chaos.engine.worker", self.url, name, str(self.job_file), *self.options]
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, *command, "--skew", str(skew), *(["--wait"] if wait else [])],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=CHECKOUT,
            )
        member = Member(name, skew, process, log)
        self.all.append(member)
        return member

    def tend(self) -> None:
        """Start others in the place of those that died."""
        for place, member in enumerate(self.members):
            if not member.alive and member.process.returncode != 0:
                self.members[place] = self.start(member.skew)
                self.replaced += 1

    def all_ended(self) -> bool:
        return not any(member.alive for member in self.members)
