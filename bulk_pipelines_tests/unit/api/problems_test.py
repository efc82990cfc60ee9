"""Every error of the program is answered as a problem that is described."""

from collections.abc import Iterator

import pytest

from bulk_pipelines import errors
from bulk_pipelines.api.problems import BY_ERROR, PROBLEMS, problem_of
from bulk_pipelines.engine import errors as of_jobs
from bulk_pipelines.storage import errors as of_storages

STATUSES = {
    errors.InvalidInput: 400,
    errors.Conflict: 409,
    of_jobs.IdempotencyConflict: 422,
    of_jobs.InFlight: 409,
    of_jobs.WrongState: 409,
    of_jobs.UnknownJob: 404,
    errors.Unavailable: 503,
    errors.Transient: 503,
    errors.Throttled: 503,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.OverQuota: 429,
    of_storages.SourceChanged: 503,
    of_storages.Missing: 404,
    of_storages.Refused: 502,
    of_storages.Full: 507,
    of_storages.UnsafePath: 400,
    of_storages.OverLimit: 413,
    of_storages.BadCompression: 400,
}


def below(root: type[errors.BulkError]) -> Iterator[type[errors.BulkError]]:
    for each in root.__subclasses__():
        yield each
        yield from below(each)


def test_every_error_has_a_problem_that_is_described() -> None:
    assert set(BY_ERROR.values()) <= PROBLEMS.keys()
    for kind in below(errors.BulkError):
        known = problem_of(kind.__new__(kind))
        assert known in PROBLEMS
        if kind.__module__.startswith("bulk_pipelines."):
            assert known != "internal-error", f"{kind.__name__} would be answered as a fault of ours"


@pytest.mark.parametrize(("kind", "status"), STATUSES.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_the_status_says_whose_fault_it_is(kind: type[errors.BulkError], status: int) -> None:
    assert PROBLEMS[problem_of(kind.__new__(kind))].status == status
