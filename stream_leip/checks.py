"""Checks of settings, each with the remedy in its message."""

import numpy as np

from stream_leip.arrays import is_number
from stream_leip.errors import InputError


def check_above_zero(name: str, value: object) -> None:
    """Refuse a setting that is not a finite number above zero."""
    if not (is_number(value) and 0 < value < np.inf):  # type: ignore[operator]
        raise InputError(f"{name}: {value!r}; use a number above zero")


def check_share(name: str, value: object) -> None:
    """Refuse a setting that is not a number from zero to one."""
    if not (is_number(value) and 0 <= value <= 1):  # type: ignore[operator]
        raise InputError(f"{name}: {value!r}; use a share, from 0 to 1")


def check_from_zero(name: str, value: object) -> None:
    """Refuse a setting that is not a finite number of at least zero."""
    if not (is_number(value) and 0 <= value < np.inf):  # type: ignore[operator]
        raise InputError(f"{name}: {value!r}; use a number from zero")


def check_whole(name: str, value: object, least: int = 1) -> None:
    """Refuse a setting that is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name}: {value!r}; use a whole number of at least {least}")


def check_kinds(check: object, on_late: object) -> None:
    """Refuse a switch that is none, and a callback that cannot be called."""
    if not isinstance(check, bool | np.bool_):
        raise InputError(f"check: {check!r}; use True or False")
    if not (on_late is None or callable(on_late)):
        raise InputError(f"on_late: {on_late!r} cannot be called; pass a function, or None")


def check_key(key: object) -> str:
    """Refuse a key that is no string."""
    if not isinstance(key, str):
        raise InputError(f"key: {key!r} ({type(key).__name__}) is no string; use str(key), say")
    return key


def check_new_key(key: str) -> None:
    """Refuse a key that could not be written into a snapshot."""
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"key: {key!r} is not Unicode text ({error.reason})") from error
