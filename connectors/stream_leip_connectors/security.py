"""How a client proves who it is to a broker, and the broker to the client."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from stream_leip import InputError

ClientName = Literal["kafka-python", "confluent"]
Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

# By kafka-python's name of each.
_CONFLUENT = {
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
}


class Security(BaseModel):
    """Settings of every connection to a broker. Passwords are never shown.

    Examples
    --------
    >>> from stream_leip_connectors.security import Security
    >>> security = Security(security_protocol="SASL_SSL", username="alice", password="wonder")
    >>> security.password
    SecretStr('**********')
    >>> sorted(security.client_options())[:3]
    ['sasl_mechanism', 'sasl_plain_password', 'sasl_plain_username']
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    security_protocol: Protocol = Field(
        default="PLAINTEXT",
        description="How to speak to the brokers: with TLS (SSL), with a password "
        "(SASL_PLAINTEXT), with both (SASL_SSL), or with neither.",
    )
    sasl_mechanism: Mechanism = Field(
        default="SCRAM-SHA-512", description="How the password is proven, where there is one."
    )
    username: str | None = Field(default=None, description="Who to be, where there is a password.")
    password: SecretStr | None = Field(
        default=None, description="The password; better in the variable or in a file."
    )
    password_file: Path | None = Field(
        default=None, description="A file whose first line is the password."
    )
    ca_file: Path | None = Field(
        default=None,
        description="PEM file of the authorities that may sign a broker's certificate; those of "
        "this system unless given.",
    )
    certificate_file: Path | None = Field(
        default=None, description="PEM file with our certificate, for brokers that want one."
    )
    key_file: Path | None = Field(
        default=None, description="PEM file with its key; the certificate's file unless given."
    )
    key_password: SecretStr | None = Field(
        default=None, description="Of the key file, if it has one."
    )

    @model_validator(mode="after")
    def _fits(self) -> "Security":
        sasl, tls = "SASL" in self.security_protocol, "SSL" in self.security_protocol
        if sasl and self.username is None:
            raise ValueError(
                f"username: {self.security_protocol} needs one, and a password; set them, or "
                "another security_protocol"
            )
        if sasl and self.password is None and self.password_file is None:
            raise ValueError(
                f"password: {self.security_protocol} needs one; set it (it has no flag: use the "
                "variable, or the file of settings), or password_file"
            )
        if self.password is not None and self.password_file is not None:
            raise ValueError("password_file: there is a password too; set one of them")
        unused = {
            "username": self.username is not None and not sasl,
            "ca_file": self.ca_file is not None and not tls,
            "certificate_file": self.certificate_file is not None and not tls,
        }
        for name, wrong in unused.items():
            if wrong:
                needed = "SASL_SSL or SASL_PLAINTEXT" if name == "username" else "SSL or SASL_SSL"
                raise ValueError(
                    f"{name}: it is not used with security_protocol {self.security_protocol}; "
                    f"set that to {needed}"
                )
        return self

    def client_options(self, client: ClientName = "kafka-python") -> dict[str, Any]:
        """The options of a client's connections; files are looked for, and secrets read, now."""
        options = self._options()
        if client == "kafka-python":
            return options
        return {_CONFLUENT[name]: value for name, value in options.items()}

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"security_protocol": self.security_protocol}
        if "SASL" in self.security_protocol:
            options["sasl_mechanism"] = self.sasl_mechanism
            options["sasl_plain_username"] = self.username
            options["sasl_plain_password"] = self._password()
        if "SSL" in self.security_protocol:
            key = self.key_file or self.certificate_file
            given = {
                "ssl_cafile": self._there("ca_file", self.ca_file),
                "ssl_certfile": self._there("certificate_file", self.certificate_file),
                "ssl_keyfile": self._there("key_file", key),
                "ssl_password": self.key_password and self.key_password.get_secret_value(),
            }
            options |= {name: value for name, value in given.items() if value is not None}
        return options

    def _password(self) -> str:
        if self.password is not None:
            return self.password.get_secret_value()
        path = self._there("password_file", self.password_file)
        first = Path(str(path)).read_text(encoding="utf-8").split("\n")[0].rstrip("\r")
        if not first:
            raise InputError(f"password_file: the first line of {path} is empty")
        return first

    @staticmethod
    def _there(name: str, path: Path | None) -> str | None:
        if path is not None and not path.is_file():
            raise InputError(f"{name}: {path}: no such file")
        return None if path is None else str(path)
