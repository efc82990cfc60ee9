"""The doctor reads the file of sources, and looks at each of them."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bulk_pipelines import doctor
from bulk_pipelines.drops import sources
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage.access import Access
from bulk_pipelines.up import supervisor
from bulk_pipelines_tests.scenes.drops import RESOURCES, Box, box_of, folder_box, write_drops_file
from bulk_pipelines_tests.servers.processes import LoginServer, Place, free_port


def test_without_a_file_of_sources_there_is_the_inbox(chosen: Settings) -> None:
    (finding,) = doctor.drops(chosen)
    assert finding.ok
    assert "the inbox is the only source" in finding.message
    assert not (chosen.home / "inbox").exists()


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ('after = "mvoe"', 'after = "move"', "after: 'mvoe' is none of leave, move, delete"),
        ('resource = "usres"', 'resource = "users"', "'usres' is not a resource: users, articles, comments"),
        ('makrer = ".done"', 'marker = ".done"', "'makrer' is not known; the known ones are after, done_folder"),
    ],
)
def test_a_mistake_in_the_file_of_sources(
    chosen: Settings, tmp_path: Path, wrong: str, right: str, message: str
) -> None:
    (tmp_path / "in").mkdir()
    lines = {
        "[[source]]": [f"where = '{tmp_path}/in'", 'name = "a"', 'after = "move"', 'marker = ".done"'],
        "[[source.files]]": ['glob = "*"', 'resource = "users"'],
    }
    text = "\n".join(line for table, fields in lines.items() for line in (table, *fields))
    asked = replace(chosen, drops_file=tmp_path / "drops.toml")
    asked.drops_file.write_text(text)
    assert doctor.drops(asked) == [doctor.Finding("drops", True, f"a, as {asked.drops_file} names them")]
    asked.drops_file.write_text(text.replace(right, wrong))
    (finding,) = doctor.drops(asked)
    assert not finding.ok
    assert message in finding.message
    assert finding.remedy == f"mend {asked.drops_file}, see docs/drops.md; until then nothing is taken"
    (finding,) = doctor.drops(replace(chosen, drops_file=tmp_path / "dorps.toml"))
    assert not finding.ok
    assert "dorps.toml cannot be read: No such file or directory" in finding.message
    variables = {"BULK_DATABASE_URL": chosen.database_url, "BULK_HOME": str(chosen.home)}
    variables |= {"BULK_UI_PORT": str(free_port()), "BULK_API_PORT": str(free_port())}
    variables |= {"BULK_DROPS_FILE": str(asked.drops_file)}
    for command in ("up", "drops list"):
        said = refused_by(command, variables)
        assert message in said
        assert len(said.splitlines()) == 1


def refused_by(command: str, variables: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "bulk_pipelines.cli", *command.split()],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


def test_sources_that_cannot_be_looked_at(
    chosen: Settings, tmp_path: Path, s3_bucket: Place, ftp_server: LoginServer
) -> None:
    (tmp_path / "in").mkdir()
    good = [folder_box(tmp_path / "in", "here"), box_of("bucket", s3_bucket), box_of("ftp", ftp_server.place())]
    bad = [
        Box("gone", str(tmp_path / "none"), Access()),
        Box("no_bucket", "s3://no-such-bucket-at-all", Access()),
        Box("dead", "ftp://127.0.0.1:1/in", Access()),
        Box("dead_too", "sftp://someone@127.0.0.1:1/in", Access()),
    ]
    access = s3_bucket.access.s3
    asked = replace(
        chosen,
        drops_file=tmp_path / "drops.toml",
        s3_endpoint=access.endpoint,
        s3_access_key_id=access.access_key_id,
        s3_secret_access_key=access.secret_access_key,
        login_user=ftp_server.access.login.user,
        login_password=ftp_server.access.login.password,
    )
    write_drops_file(asked.drops_file, good)
    assert [each.ok for each in doctor.drops(asked)] == [True]
    write_drops_file(asked.drops_file, good + bad)
    found = doctor.drops(asked)
    assert [each.message.partition(": ")[0] for each in found] == ["gone", "no_bucket", "dead", "dead_too"]
    assert not any(each.ok for each in found)
    assert "does not exist" in found[0].message
    assert "the bucket of s3://no-such-bucket-at-all" in found[1].message
    assert all("127.0.0.1:1" in each.message and "cannot be reached" in each.message for each in found[2:])
    said: list[str] = []
    supervisor.tell_unreachable(sources.load(asked.drops_file, RESOURCES, asked.home), asked, said.append)
    assert [line.split(" now: ")[0] for line in said] == [
        f"Nothing can be taken from the source {name}" for name in ("gone", "no_bucket", "dead", "dead_too")
    ]
