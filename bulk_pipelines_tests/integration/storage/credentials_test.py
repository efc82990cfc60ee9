"""Landing with wrong, missing and hidden credentials, and from servers that are not trusted."""

from dataclasses import replace
from pathlib import Path

import pytest

from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access, LoginAccess, S3Access
from bulk_pipelines.storage.errors import Refused
from bulk_pipelines.storage.landing import land
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.servers.processes import PASSWORD, LoginServer, Place


@pytest.mark.usefixtures("without_aws")
def test_s3_without_credentials(into: LocalStorage, s3_bucket: Place) -> None:
    locations.folder(s3_bucket.url, s3_bucket.access).put("source", b"data")
    access = Access(s3=S3Access(endpoint=s3_bucket.access.s3.endpoint))
    with pytest.raises(Refused, match="needs credentials, and none were given: see BULK_S3_ACCESS_KEY_ID"):
        land(f"{s3_bucket.url}/source", into, "J1/0", access)


@pytest.mark.parametrize(("key_id", "secret"), [("NOSUCHKEY", "n0t-to-be-shown"), ("TESTACCESSKEY", "n0t-to-be-shown")])
def test_s3_with_wrong_credentials(into: LocalStorage, s3_bucket: Place, key_id: str, secret: str) -> None:
    access = replace(s3_bucket.access, s3=replace(s3_bucket.access.s3, access_key_id=key_id, secret_access_key=secret))
    with pytest.raises(Refused, match="the credentials are wrong") as caught:
        land(f"{s3_bucket.url}/source", into, "J1/0", access)
    assert secret not in str(caught.value)
    assert secret not in repr(access)


@pytest.mark.parametrize("kind", ["ftp", "ftps", "ftpes", "sftp"])
def test_logins_without_and_with_wrong_passwords(kind: str, into: LocalStorage, request: pytest.FixtureRequest) -> None:
    place = request.getfixturevalue(f"{kind}_server").place()
    without = replace(place.access, login=replace(place.access.login, password=""))
    with pytest.raises(Refused, match="none w(as|ere) given"):
        land(f"{place.url}/source", into, "J1/0", without)
    wrong = replace(place.access, login=replace(place.access.login, password="n0t-to-be-shown"))
    with pytest.raises(Refused, match="refuses these credentials") as caught:
        land(f"{place.url}/source", into, "J1/0", wrong)
    assert "n0t-to-be-shown" not in str(caught.value)
    in_address = place.url.replace("tester@", "tester:n0t-to-be-shown@")
    with pytest.raises(Refused, match="refuses these credentials") as caught:
        land(f"{in_address}/source", into, "J1/0", place.access)
    assert "n0t-to-be-shown" not in str(caught.value)


def test_a_password_in_the_address_is_used_and_not_kept(into: LocalStorage, ftp_server: LoginServer) -> None:
    place = ftp_server.place()
    locations.folder(place.url, place.access).put("source", b"data")
    url = place.url.replace("tester@", f"tester:{PASSWORD.replace(' ', '%20')}@")
    landed = land(f"{url}/source", into, "J1/0", Access())
    assert landed.source == f"{place.url}/source"
    assert PASSWORD.split()[0] not in repr(landed)


@pytest.mark.parametrize("kind", ["ftps", "ftpes"])
def test_a_server_that_is_not_trusted(kind: str, into: LocalStorage, request: pytest.FixtureRequest) -> None:
    place = request.getfixturevalue(f"{kind}_server").place()
    with pytest.raises(Refused, match="certificate is not trusted"):
        land(f"{place.url}/source", into, "J1/0", replace(place.access, ca_file=""))


def test_an_ssh_server_that_is_not_known(into: LocalStorage, sftp_server: LoginServer, tmp_path: Path) -> None:
    place = sftp_server.place()
    known = tmp_path / "known_hosts"
    known.write_text("")
    access = Access(login=LoginAccess("tester", PASSWORD, known_hosts=str(known)))
    with pytest.raises(Refused, match="a key that is not known"):
        land(f"{place.url}/source", into, "J1/0", access)
