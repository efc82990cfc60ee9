"""Dagster's storage, with each of its sessions set up as those of this project are. Its tables are in a schema of their
own, whatever role, database and environment say, and also behind a pooler, which ignores or refuses the `options` of an
address."""

from collections.abc import Mapping
from typing import Any, Self

from dagster._serdes import ConfigurableClassData
from dagster_postgres import DagsterPostgresStorage
from sqlalchemy import Dialect, Engine, event

from bulk_pipelines.database import session
from bulk_pipelines.orchestration.schema import APPLICATION, SCHEMA

TIMEOUT = 10
"""How many seconds to wait for the server's answer to a new connection."""


class Storage(DagsterPostgresStorage):
    """The storage of dagster-postgres. It makes its connections in many places, so they are set up where SQLAlchemy
    opens them."""

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        return cls(inst_data=inst_data, postgres_url=config_value["postgres_url"])


@event.listens_for(Engine, "do_connect")
def connect(dialect: Dialect, _record: object, _given: object, parts: Mapping[str, Any]) -> Any:
    """Open a session for this storage. For all other sessions this returns None, and SQLAlchemy opens them."""
    if parts.get("application_name") != APPLICATION:
        return None
    connection = dialect.connect(**session.completed(parts, APPLICATION, TIMEOUT))
    # Settings that are made within a transaction would be lost if it were rolled back.
    connection.autocommit = True
    settings = session.settings(session.from_options(session.joined(parts.get("options", ""))), SCHEMA)
    connection.cursor().execute(session.statement(settings, session.refuse_old(connection.server_version)))
    connection.autocommit = False
    return connection
