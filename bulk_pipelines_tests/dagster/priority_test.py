"""What a person says of a job's priority, in the launchpad or on the command line, is what the relay goes by."""

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner
from sqlalchemy import Engine

from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.definitions import defs
from bulk_pipelines.engine.jobs import dispatch
from bulk_pipelines.engine.jobs.dispatch import DispatchLimits
from bulk_pipelines.settings import CHECKOUT

KINDS = ["distribution", "export_users", "import_users"]


def launchpad(job: str, op: str, url: str, **config: Any) -> dg.ExecuteInProcessResult:
    """Run the job with the configuration that its launchpad opens with, and these values changed."""
    chosen = defs.resolve_job_def(job)
    assert chosen.run_config is not None
    filled = chosen.run_config["ops"][op]["config"] | config
    return chosen.execute_in_process(
        run_config={"ops": {op: {"config": filled}}, "resources": {"database": {"config": {"url": url}}}},
        raise_on_error=False,
    )


def test_the_launchpad_and_the_command_line(
    engine: Engine, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    monkeypatch.setenv("BULK_HOME", str(tmp_path))
    source = str(CHECKOUT / "docs" / "samples" / "users.csv")
    assert launchpad("import_file", "submit_import", database_url, source=source, priority=3).success
    assert launchpad("distribute_files", "submit_distribution", database_url, priority=9).success
    assert launchpad("export_rows", "submit_export", database_url, priority=7).success
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"inputs": [{"indexKey": "A", "effectiveDate": "20260101", "asofindicator": "CLS"}]}))
    submitted = CliRunner().invoke(main, ["distribute", "submit", str(request), "--priority", "5"])
    assert submitted.exit_code == 0, submitted.output
    refused = CliRunner().invoke(main, ["distribute", "submit", str(request), "--priority", "500"])
    assert refused.output == "Error: priority: 500 is no whole number from -100 to 100\n"
    assert not launchpad("import_file", "submit_import", database_url, source=source, priority=500).success
    with transaction(engine) as connection:
        offers = dispatch.offers(connection, KINDS, DispatchLimits())
    assert [(offer.kind, offer.priority) for offer in offers] == [
        ("distribution", 9),
        ("export_users", 7),
        ("distribution", 5),
        ("import_users", 3),
    ]
