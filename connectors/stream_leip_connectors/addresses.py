"""Where a page is served, and who may look at it."""

import ipaddress
import socket
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from stream_leip import InputError

# Shorter ones can be guessed.
SHORTEST_TOKEN = 16


class Address(BaseModel):
    """Settings of a page's server. On another address than loopback, people need a token.

    Examples
    --------
    >>> from stream_leip_connectors.addresses import Address
    >>> Address().hosts(5006)
    ('127.0.0.1:5006', '[::1]:5006', 'localhost:5006')
    >>> Address(address="10.0.0.7", token="a-long-secret-token").needs_token
    True
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    address: str = Field(
        default="127.0.0.1",
        description="Where to listen: this machine only, or 0.0.0.0 for everybody, which needs a "
        "token.",
    )
    port: int = Field(
        default=5006, ge=0, le=65535, description="Where to listen; 0 takes a free port."
    )
    token: SecretStr | None = Field(
        default=None,
        description="What people must know to see the page, 16 characters or more; better in "
        "the variable, since others on this machine can see what is typed.",
    )
    origin: str | None = Field(
        default=None,
        description="More names under which people reach the page, with commas: "
        "dash.example.com, or dash.example.com:8080.",
    )

    @model_validator(mode="after")
    def _guarded(self) -> "Address":
        if not self.loopback and self.token is None:
            raise ValueError(
                f"address: {self.address} can be reached from other machines, so a token is "
                "needed; set --token, or leave the address out"
            )
        if self.token is not None and len(self.token.get_secret_value()) < SHORTEST_TOKEN:
            raise ValueError(
                f"token: it is shorter than {SHORTEST_TOKEN} characters; make one with "
                "python -c 'import secrets; print(secrets.token_urlsafe())'"
            )
        return self

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.address == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.address).is_loopback
        except ValueError:
            return False

    @property
    def needs_token(self) -> bool:
        """Whether people have to know a token."""
        return self.token is not None

    def url(self, port: int) -> str:
        """Where people open the page."""
        everywhere = self.address in ("0.0.0.0", "::")
        name = socket.gethostname() if everywhere else self.address
        return f"http://{'localhost' if name == '127.0.0.1' else _bracketed(name)}:{port}/"

    def hosts(self, port: int) -> tuple[str, ...]:
        """The names, each with a port, under which the page may be asked for."""
        names = {"localhost", "127.0.0.1", "[::1]"}
        if not self.loopback:
            names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        names.add(_bracketed(self.address.lower()))
        found = {f"{name}:{port}" for name in names}
        for each in filter(None, map(str.strip, (self.origin or "").lower().split(","))):
            found.add(each if ":" in each else f"{each}:80")  # as a Host header leaves it out
        return tuple(sorted(found))


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def host_of(url: str) -> str:
    """The host that notices are posted to; InputError if there is none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError("notify_url: it is no address of the kind https://host/path")
    return parts.hostname
