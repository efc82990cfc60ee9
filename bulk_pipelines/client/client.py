"""The client: it has one connection, and the imports, exports, distributions and jobs that are asked for over it."""

from types import TracebackType
from typing import Self

from bulk_pipelines.client.connection import PATIENT_SECONDS, Connection
from bulk_pipelines.client.distributions import Distributions
from bulk_pipelines.client.exports import Exports
from bulk_pipelines.client.following import News
from bulk_pipelines.client.imports import Imports
from bulk_pipelines.client.jobs import Jobs


class Client:
    """A client of the API at an address. Close it, or use it as a context, to end its connections."""

    def __init__(self, server: str, key: str | None = None, *, patience: float = PATIENT_SECONDS) -> None:
        """Prepare to ask the server at this address. `patience` says for how many seconds a request is tried again
        while the server cannot be reached."""
        self.connection = Connection(server, key, patience)
        self.imports = Imports(self.connection)
        self.exports = Exports(self.connection)
        self.distributions = Distributions(self.connection)
        self.jobs = Jobs(self.connection)

    def news(self, job_id: str) -> News:
        """Return the news of a job of any kind: `wait` returns when it may have changed."""
        return News(self.connection, job_id)

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
