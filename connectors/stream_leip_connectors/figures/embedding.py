"""Values inside of a page."""

import json
from typing import Any


def as_json(value: Any) -> str:
    r"""JSON that nothing in a page can mistake for markup.

    Examples
    --------
    >>> from stream_leip_connectors.figures.embedding import as_json
    >>> print(as_json(["</script>", 0.5]))
    ["\u003c/script\u003e",0.5]
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
