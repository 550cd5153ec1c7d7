"""Certificates as brokers and clients take them: PEM files, keys in PKCS #8."""

from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from stream_leip_connectors.kafka.listeners import Listeners
from stream_leip_connectors.kafka.local import LocalBroker

PASSWORD = "open sesame 42"  # alice's


class Authority:
    """Signs certificates, and writes them into a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._authority = trustme.CA()
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._authority.cert_pem.bytes())

    def issue(self, subject: str) -> Path:
        issued = self._authority.issue_cert(subject)
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path = self._folder / f"{self._name}-{subject}.pem"
        path.write_bytes(plain + b"".join(each.bytes() for each in issued.cert_chain_pems))
        return path


class Secured(NamedTuple):
    """A broker with every listener, and what a client needs for them."""

    broker: LocalBroker
    authority: Authority
    stranger: Authority
    certificate: Path

    @classmethod
    def make(cls, folder: Path) -> "Secured":
        ours, theirs = Authority(folder, "ours"), Authority(folder, "theirs")
        listeners = Listeners({"alice": PASSWORD}, ours.issue("127.0.0.1"), ours.file)
        return cls(LocalBroker(listeners=listeners), ours, theirs, ours.issue("client@example.org"))
