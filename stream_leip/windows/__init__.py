"""Windows: the policies that say which panes are in scope now."""

from stream_leip.windows.adaptive import Adaptive
from stream_leip.windows.shapes import Fading, Sliding, Tumbling, Window
from stream_leip.windows.state import Layout, Scope, WindowState

__all__ = ["Adaptive", "Fading", "Layout", "Scope", "Sliding", "Tumbling", "Window", "WindowState"]
