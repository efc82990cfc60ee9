"""A file is looked at before it is sent: its beginning, however it is packed and however odd it is."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import zipfile

import pytest
from backports import zstd

from bulk_pipelines_tests.scenes.browser import Visitor, words
from bulk_pipelines_tests.scenes.furnished import Furnished


def test_a_file_is_looked_at_before_it_is_sent(ada: Visitor, made: Furnished) -> None:
    place = "/console/new/import/preview?resource=users&name=people.csv"
    data = b"E-Mail;name;role;notes\nann@example.org;Ann;reader;x\nbob;Bob;reader;y\nhalf@exam"
    assert ada.client.post(f"{place}&cut=true", content=data).status_code == 403
    headers = {"X-CSRF-Token": ada.token("/console/jobs")}
    page = ada.client.post(f"{place}&cut=true", content=data, headers=headers)
    assert page.status_code == 200
    told = words(page)
    assert "notes" in told
    page = ada.client.post(f"{place}&cut=true&ignore=notes&map=email%3DE-Mail", content=data, headers=headers)
    told = words(page)
    assert "1 of the first 2 records would be rejected : invalid_email_format (1)" in told
    assert "ann@example.org" in told
    broken = ada.client.post(place, content=b"\x00\x01\x02", headers=headers)
    assert broken.status_code == 200


def packed(name: str, data: bytes) -> bytes:
    match name:
        case "zip":
            with io.BytesIO() as buffer:
                with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
                    archive.writestr("people.csv", data)
                return buffer.getvalue()
        case "gzip":
            return gzip.compress(data)
        case "bzip2":
            return bz2.compress(data)
        case "xz":
            return lzma.compress(data)
        case "utf-16":
            return data.decode().encode("utf-16")
    return data


@pytest.mark.parametrize("packing", ["plain", "gzip", "bzip2", "xz", "zip", "json", "utf-16"])
def test_the_beginning_of_a_large_file_is_looked_at(ada: Visitor, packing: str) -> None:
    rows = [(f"p{n}@example.org", hashlib.sha256(str(n).encode()).hexdigest()) for n in range(40_000)]
    if packing == "json":
        data = json.dumps([{"email": email, "name": name, "role": "reader"} for email, name in rows]).encode()
    else:
        data = b"email,name,role\n" + "".join(f"{email},{name},reader\n" for email, name in rows).encode()
    sent = packed(packing, data)
    cut = packing != "zip"
    sent = sent[:1_000_000] if cut else sent
    headers = {"X-CSRF-Token": ada.token("/console/jobs")}
    place = f"/console/new/import/preview?resource=users&name=people&cut={str(cut).lower()}"
    told = words(ada.client.post(place, content=sent, headers=headers))
    assert "None of the first 1,000 records would be rejected" in told
    assert "p0@example.org" in told
    assert (f"compression: {packing}" in told) == (packing in ("gzip", "bzip2", "xz"))


@pytest.mark.parametrize(
    ("sent", "option", "said"),
    [
        (zstd.compress(b"") * 10_001, "", "cut into very many tiny zstd frames"),
        (gzip.compress(b"email\n" * 100), "&compression=xz", "people is gzip, and was said to be xz"),
        (
            "email,name,role\nann@example.org,Ann,reader\nbo".encode("utf-16"),
            "",
            "The only record of the file would not be rejected",
        ),
        (
            "email,name,role\nann@example.org,Ann,reader\nbo".encode("utf-16-be"),
            "&encoding=utf-16-be",
            "The only record of the file would not be rejected",
        ),
        (
            b'\xef\xbb\xbf[{"email":"ann@example.org","name":"Ann",\n"role":"reader"},{"em',
            "",
            "The only record of the file would not be rejected",
        ),
    ],
    ids=["tiny", "not xz", "utf-16", "without a mark", "marked json"],
)
def test_an_odd_beginning_is_looked_at(ada: Visitor, sent: bytes, option: str, said: str) -> None:
    headers = {"X-CSRF-Token": ada.token("/console/jobs")}
    page = ada.client.post(
        f"/console/new/import/preview?resource=users&name=people&cut=true{option}", content=sent, headers=headers
    )
    assert (page.status_code, said in words(page)) == (200, True), words(page)
