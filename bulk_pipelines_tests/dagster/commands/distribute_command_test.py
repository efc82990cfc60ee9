"""`bulk distribute …` as a person types it: sample, submit, run under Dagster with step processes, status."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines.storage import locations
from bulk_pipelines_tests.scenes import exports
from bulk_pipelines_tests.scenes.distribution import Scene, many, paths
from bulk_pipelines_tests.servers.processes import Place


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path: sockets are made in it."""
    with tempfile.TemporaryDirectory(prefix="bulk-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
def environment(home: Path, database_url: str, s3_bucket: Place) -> Mapping[str, str]:
    s3 = s3_bucket.access.s3
    return os.environ | {
        "BULK_HOME": str(home),
        "BULK_DATABASE_URL": database_url,
        "BULK_DISTRIBUTION_URL": f"{s3_bucket.url}/exports",
        "BULK_S3_ENDPOINT": s3.endpoint,
        "BULK_S3_ACCESS_KEY_ID": s3.access_key_id,
        "BULK_S3_SECRET_ACCESS_KEY": s3.secret_access_key,
    }


def bulk(
    environment: Mapping[str, str], *arguments: str, given: str = "", code: int = 0
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bulk_pipelines.cli", "distribute", *arguments]
    done = subprocess.run(command, env=environment, cwd=CHECKOUT, input=given, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def answered(environment: Mapping[str, str], *arguments: str, **options: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(bulk(environment, *arguments, **options).stdout)
    return answer


@pytest.mark.long
def test_from_sample_to_files(environment: Mapping[str, str], engine: Engine, s3_bucket: Place, home: Path) -> None:
    scene = Scene(engine, s3_bucket)
    sampled = bulk(environment, "sample", "--indexes", "150")
    assert sampled.stderr == "30,000 rows added to index_data\n"
    request = json.loads(sampled.stdout)
    assert len(request["inputs"]) == 600  # too many for one process
    assert bulk(environment, "sample", "--indexes", "150").stderr == "0 rows added to index_data\n"

    first = answered(environment, "submit", "-", "--idempotency-key", "k", given=sampled.stdout)
    assert answered(environment, "submit", "-", "--idempotency-key", "k", given=sampled.stdout) == first
    assert first["status"] == "SUBMITTED"
    worked = answered(environment, "run", "-", given=json.dumps(first))
    assert (worked["status"], worked["filesGenerated"], len(worked["dataContent"])) == ("COMPLETED", 600, 10)
    job = scene.job(first["jobId"])
    scene.check(job, request["inputs"])
    assert job.dagster_run_id is not None

    page = answered(environment, "status", first["jobId"], "--size", "400")
    rest = answered(environment, "status", first["jobId"], "--size", "400", "--after", page["next"])
    assert sorted(paths(page) + paths(rest)) == sorted(scene.path(job, each) for each in request["inputs"])

    bad = {"inputs": [*request["inputs"][:3], {"indexKey": "NONE", "effectiveDate": 20240101, "asofindicator": "CLS"}]}
    second = answered(environment, "submit", "-", given=json.dumps(bad))
    failed = answered(environment, "run", second["jobId"], code=1)
    assert (failed["status"], failed["failed"], failed["filesReused"]) == ("FAILED", 1, 3)
    scene.have(bad["inputs"][3:])
    redriven = answered(environment, "run", second["jobId"])
    assert (redriven["status"], redriven["filesGenerated"], redriven["filesReused"]) == ("COMPLETED", 1, 3)


@pytest.mark.long
def test_retention_forgets_what_is_gone(environment: Mapping[str, str], engine: Engine, s3_bucket: Place) -> None:
    scene = Scene(engine, s3_bucket)
    scene.have(many(5))
    job = scene.done(many(5))
    with locations.folder(s3_bucket.url, s3_bucket.access) as storage:
        storage.delete(*(scene.path(job, each).removeprefix(f"{s3_bucket.url}/") for each in many(3)))
    for options, left in (["--dry-run"], 5), ([], 2):
        command = [sys.executable, "-m", "bulk_pipelines.cli", "prune", *options]
        done = subprocess.run(command, env=environment, cwd=CHECKOUT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert re.search(r"^registered files that are gone +3$", done.stdout, re.MULTILINE), done.stdout
        assert len(scene.registry()) == left


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        (["submit", "-"], "{", "request: is not JSON"),
        (["submit", "-"], f'{{"inputs": [{"1" * 5_000}]}}', "request: is not JSON"),
        (["submit", "-"], "[]", "inputs: is missing"),
        (["submit", "-"], '{"inputs": [{"indexKey": "a/b"}]}', "inputs[0].effectiveDate: is missing"),
        (["status", "J20260110_000777"], "", "no job has the key 'J20260110_000777'"),
        (["run", "-"], "J20260110_000777\n", "no job has the key 'J20260110_000777'"),
    ],
)
def test_errors_are_one_line(environment: Mapping[str, str], arguments: list[str], given: str, message: str) -> None:
    done = bulk(environment, *arguments, given=given, code=1)
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["status", "run"])
def test_a_job_of_another_kind_is_left_alone(environment: Mapping[str, str], engine: Engine, command: str) -> None:
    job = exports.submitted(engine)
    done = bulk(environment, command, job.job_key, code=1)
    assert done.stdout == ""
    assert done.stderr == f"Error: job: {job.job_key} is no distribution, it is of the kind export_users\n"
    assert exports.found(engine, job) == job
