"""Which addresses are of the open internet."""

from ipaddress import ip_address

import pytest

from bulk_pipelines.storage.errors import OverLimit
from bulk_pipelines.storage.http.guard import Deadline, is_public


@pytest.mark.parametrize(
    "text",
    [
        "8.8.8.8",
        "1.1.1.1",
        "93.184.216.34",
        "2606:4700::1111",
        "2a00:1450:4001:80e::200e",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::1",
    ],
)
def test_public(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "224.0.1.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "ff0e::1",
        "2001:db8::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a00:1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "100::1",
    ],
)
def test_not_public(text: str) -> None:
    assert not is_public(ip_address(text))


def test_a_deadline_limits_each_step() -> None:
    now = 100.0
    deadline = Deadline(10, lambda: now)
    assert deadline.within(30) == 10
    assert deadline.within(3) == 3
    assert deadline.within(None) == 10
    now = 108.0
    assert deadline.within(30) == 2
    now = 110.0
    with pytest.raises(OverLimit, match="longer than 10 s"):
        deadline.within(1)
