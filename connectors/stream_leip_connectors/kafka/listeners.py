"""Listeners of a broker on this machine: plain, and if asked for with passwords and with TLS."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stream_leip import InputError

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_LOGIN = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Listeners:
    """What a broker listens to, beside its plain listener.

    Parameters
    ----------
    users
        Names and passwords: a listener "sasl", for PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.
    certificate
        A PEM file with the private key (PKCS #8) and the chain: a listener "tls", and with users
        one more, "sasl_tls".
    authority
        A PEM file of authorities: on "tls", clients have to show a certificate that one signed.
    """

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: Path | None = None
    authority: Path | None = None

    def __post_init__(self) -> None:
        for name, password in self.users.items():
            if not name.isalnum() or set(password) & set("\"'\\=,[]\n\r") or not password:
                raise InputError(
                    f"users: the name {name!r} or its password cannot be written into the broker's "
                    "settings; use letters and digits"
                )
        if self.authority is not None and self.certificate is None:
            raise InputError(
                "authority: clients show certificates over TLS; give a certificate too"
            )

    @property
    def protocols(self) -> dict[str, str]:
        """The listeners by name, each with Kafka's name of its protocol."""
        found = {"plain": "PLAINTEXT"}
        if self.users:
            found["sasl"] = "SASL_PLAINTEXT"
        if self.certificate is not None:
            found["tls"] = "SSL"
        if self.users and self.certificate is not None:
            found["sasl_tls"] = "SASL_SSL"
        return found

    def settings(self) -> dict[str, str]:
        """The broker settings that they need."""
        found: dict[str, str] = {}
        users = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        for name, protocol in self.protocols.items():
            mine = f"listener.name.{name}."
            if "SASL" in protocol:
                found[mine + "sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
                for mechanism in MECHANISMS:
                    module = (
                        f"{_LOGIN}.plain.PlainLoginModule required {users};"
                        if mechanism == "PLAIN"
                        else f"{_LOGIN}.scram.ScramLoginModule required;"
                    )
                    found[f"{mine}{mechanism.lower()}.sasl.jaas.config"] = module
            if "SSL" in protocol:
                found[mine + "ssl.keystore.type"] = "PEM"
                found[mine + "ssl.keystore.location"] = str(self.certificate)
            if protocol == "SSL" and self.authority is not None:
                found[mine + "ssl.truststore.type"] = "PEM"
                found[mine + "ssl.truststore.location"] = str(self.authority)
                found[mine + "ssl.client.auth"] = "required"
        return found

    def format_arguments(self) -> list[str]:
        """What Kafka's storage tool is told of the users: SCRAM's are in the cluster's metadata."""
        return [
            argument
            for name, password in self.users.items()
            for mechanism in MECHANISMS[1:]
            for argument in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
        ]
